// A trace as it arrives from Python: a small JSON header and one block of bytes that holds the columns.
//
// Rows are sorted by lane, then by start. The columns are views of the bytes, so a million spans cost no objects.

import type { Glyph } from "./glyphs.ts";
import { SortedTable, type Table } from "./table.ts";

export interface ColumnPlace {
  readonly dtype: "f8" | "f4" | "u4" | "u1" | "utf8";
  readonly offset: number; // bytes
  readonly length: number; // elements, or bytes of text
}

export interface Kind {
  readonly name: string;
  readonly color: string; // #rrggbb
  readonly level: number; // greater is drawn over smaller; spans: 0 outer, 1 work, 3 down; marks: see marks.ts
}

export type MarkKind = Kind & Glyph;

export interface TraceHeader {
  readonly version: number;
  readonly lanes: readonly string[];
  readonly kinds: readonly Kind[]; // categories of spans
  readonly marks: readonly MarkKind[]; // categories of instants
  readonly first_s: number;
  readonly last_s: number;
  readonly facts_left_out: number;
  readonly not_restarted: number; // down times at the end of the trace that the log does not hold as spans
  readonly empty_text: string; // what to say where nothing was recorded; else ""
  readonly columns: Readonly<Record<string, ColumnPlace>>;
}

export interface TraceData {
  readonly version: number; // greater after every change; a snapshot's never changes
  readonly header: TraceHeader;
  readonly names: readonly string[];
  readonly spans: Table;
  readonly instants: Table;
  /** The rows of all down times; there are few. */
  downRows(): Uint32Array;
  /** The rows of instants above the level of notes in order of time; what "next event" walks along. */
  eventRows(): Uint32Array;
}

export const DOWN_LEVEL = 3; // of kinds of spans

type NumberArray = Float64Array | Float32Array | Uint32Array | Uint8Array;
const ARRAYS = { f8: Float64Array, f4: Float32Array, u4: Uint32Array, u1: Uint8Array } as const;
const NO_FACTS: Readonly<Record<string, unknown>> = Object.freeze({});

/** Reads what `encode` of the Python side wrote. */
export function decode(header: TraceHeader, bytes: DataView): TraceData {
  if (header.version !== 2) throw new Error(`unknown trace format ${header.version}: reinstall simdist_widgets`);
  const columns = new Columns(header, bytes);
  const [spans, instants] = [readTable(columns, "span"), readTable(columns, "instant")];
  const down = rowsFrom(spans, header.kinds, DOWN_LEVEL);
  const events = rowsFrom(instants, header.marks, 1).sort((a, b) => instants.start[a] - instants.start[b] || a - b);
  const names = JSON.parse(columns.text("names")) as string[];
  return { version: 0, header, names, spans, instants, downRows: () => down, eventRows: () => events };
}

/** The rows whose kind is of a level or above it. */
function rowsFrom(table: Table, kinds: readonly Kind[], level: number): Uint32Array {
  const rows: number[] = [];
  for (let row = 0; row < table.count; row++) if (kinds[table.kind[row]].level >= level) rows.push(row);
  return Uint32Array.from(rows);
}

function readTable(columns: Columns, prefix: string): SortedTable {
  const factRow = columns.numbers(`${prefix}_fact_row`) as Uint32Array;
  const factEnd = columns.numbers(`${prefix}_fact_end`) as Uint32Array;
  return new SortedTable({
    laneFirst: columns.numbers(`${prefix}_lane_first`) as Uint32Array,
    kind: columns.numbers(`${prefix}_kind`) as Uint8Array,
    name: columns.numbers(`${prefix}_name`) as Uint32Array,
    start: columns.numbers(`${prefix}_start`) as Float64Array,
    duration: columns.numbers(`${prefix}_duration`) as Float32Array,
    facts(row) {
      const index = indexOf(factRow, row);
      if (index < 0) return NO_FACTS;
      return JSON.parse(columns.text(`${prefix}_fact_text`, index ? factEnd[index - 1] : 0, factEnd[index]));
    },
  });
}

function indexOf(sorted: Uint32Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return sorted[low] === value ? low : -1;
}

class Columns {
  constructor(
    readonly header: TraceHeader,
    readonly bytes: DataView,
  ) {}

  numbers(name: string): NumberArray {
    const { dtype, offset, length } = this.place(name);
    if (dtype === "utf8") throw new Error(`column ${name} holds text`);
    const type = ARRAYS[dtype];
    const begin = this.bytes.byteOffset + offset;
    // a typed array must start at a multiple of its item size; messages of Jupyter do not always
    if (begin % type.BYTES_PER_ELEMENT === 0) return new type(this.bytes.buffer as ArrayBuffer, begin, length);
    return new type(this.bytes.buffer.slice(begin, begin + length * type.BYTES_PER_ELEMENT) as ArrayBuffer);
  }

  text(name: string, from = 0, to = this.place(name).length): string {
    const { offset } = this.place(name);
    return new TextDecoder().decode(new DataView(this.bytes.buffer, this.bytes.byteOffset + offset + from, to - from));
  }

  private place(name: string): ColumnPlace {
    const place = this.header.columns[name];
    if (!place) throw new Error(`the trace has no column ${name}: reinstall simdist_widgets`);
    return place;
  }
}
