// Rows of a run as they arrive from the kernel, in order of recording: a small JSON header and one block of bytes.

import type { ColumnPlace, Kind, MarkKind } from "./trace_data.ts";

export const [SPAN, INSTANT, COUNTER] = [0, 1, 2];
export const NO_CAUSE = 0xffffffff; // and no number

export interface RowsMessage {
  readonly kind: "rows";
  readonly branch: number;
  readonly from_row: number;
  readonly rows: number;
  readonly names: readonly string[]; // new texts; those known keep their places
  readonly lanes: readonly string[];
  readonly kinds: readonly Kind[];
  readonly marks: readonly MarkKind[];
  readonly columns: Readonly<Record<string, ColumnPlace>>;
}

/** The columns of one message. */
export interface RecordedRows {
  readonly lane: Uint32Array;
  readonly start: Float64Array;
  readonly duration: Float32Array;
  readonly name: Uint32Array;
  readonly category: Uint8Array;
  readonly sort: Uint8Array;
  readonly value: Float64Array;
  readonly cause: Uint32Array; // the number of the record that caused it
  readonly number: Uint32Array | null; // of the record; null: they are numbered in order of arrival
}

const TYPES = {
  lane: Uint32Array,
  start: Float64Array,
  duration: Float32Array,
  name: Uint32Array,
  category: Uint8Array,
  sort: Uint8Array,
  value: Float64Array,
  cause: Uint32Array,
  number: Uint32Array,
} as const;

/** The columns of a message's bytes, wherever in memory they begin. */
export function readRows({ columns }: RowsMessage, bytes: DataView): RecordedRows {
  const read = ([name, type]: [string, (typeof TYPES)[keyof typeof TYPES]]): [string, unknown] => {
    const place = columns[name];
    if (!place && name === "number") return [name, null];
    if (!place) throw new Error(`the rows have no column ${name}: reinstall simdist_widgets`);
    const begin = bytes.byteOffset + place.offset;
    const end = begin + place.length * type.BYTES_PER_ELEMENT;
    return [name, new type(bytes.buffer.slice(begin, end) as ArrayBuffer)];
  };
  return Object.fromEntries(Object.entries(TYPES).map(read)) as unknown as RecordedRows;
}
