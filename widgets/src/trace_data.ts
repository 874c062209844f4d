// A trace as it arrives from Python: a small JSON header and one block of bytes that holds the columns.
//
// Rows are sorted by lane, then by start; `laneFirst` says where each lane begins. The columns are views of the bytes,
// so a million spans cost no objects. Longer spans may start before a window and reach into it: for every block of
// rows, `blockEnd` holds the latest end, and blocks that end before the window are skipped.

import type { Glyph } from "./glyphs.ts";

export const BLOCK = 512;

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

/** Rows of one sort: spans, or instants (whose durations are all zero). */
export interface Table {
  readonly count: number;
  readonly laneFirst: Uint32Array; // lanes + 1
  readonly kind: Uint8Array;
  readonly name: Uint32Array;
  readonly start: Float64Array; // seconds
  readonly duration: Float32Array; // seconds
  readonly blockEnd: Float64Array; // seconds, one per block
  facts(row: number): Readonly<Record<string, unknown>>;
}

export interface TraceData {
  readonly header: TraceHeader;
  readonly names: readonly string[];
  readonly spans: Table;
  readonly instants: Table;
}

type NumberArray = Float64Array | Float32Array | Uint32Array | Uint8Array;
const ARRAYS = { f8: Float64Array, f4: Float32Array, u4: Uint32Array, u1: Uint8Array } as const;
const NO_FACTS: Readonly<Record<string, unknown>> = Object.freeze({});

/** Reads what `encode` of the Python side wrote. */
export function decode(header: TraceHeader, bytes: DataView): TraceData {
  if (header.version !== 2) throw new Error(`unknown trace format ${header.version}: reinstall simdist_widgets`);
  const columns = new Columns(header, bytes);
  return {
    header,
    names: JSON.parse(columns.text("names")) as string[],
    spans: readTable(columns, "span"),
    instants: readTable(columns, "instant"),
  };
}

/** The latest end of the rows of every block of one table. */
export function blockEnds(start: Float64Array, duration: Float32Array): Float64Array {
  const ends = new Float64Array(Math.ceil(start.length / BLOCK)).fill(-Infinity);
  for (let row = 0; row < start.length; row++) {
    const end = start[row] + duration[row];
    const block = Math.floor(row / BLOCK);
    if (end > ends[block]) ends[block] = end;
  }
  return ends;
}

/** The first row in [low, high) whose start is greater than `time`. */
export function firstAfter(start: Float64Array, low: number, high: number, time: number): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (start[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Calls `visit(from, to)` for stretches of rows of a lane that may touch [start, end]; each row must be checked. */
export function stretches(
  table: Table,
  lane: number,
  start: number,
  end: number,
  visit: (from: number, to: number) => void,
): void {
  const first = table.laneFirst[lane];
  const stop = firstAfter(table.start, first, table.laneFirst[lane + 1], end);
  for (let block = Math.floor(first / BLOCK); block * BLOCK < stop; block++) {
    if (table.blockEnd[block] < start) continue;
    visit(Math.max(first, block * BLOCK), Math.min(stop, (block + 1) * BLOCK));
  }
}

/** The lane of a row. */
export function laneOf(table: Table, row: number): number {
  let low = 0;
  let high = table.laneFirst.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (table.laneFirst[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

function readTable(columns: Columns, prefix: string): Table {
  const start = columns.numbers(`${prefix}_start`) as Float64Array;
  const duration = columns.numbers(`${prefix}_duration`) as Float32Array;
  const factRow = columns.numbers(`${prefix}_fact_row`) as Uint32Array;
  const factEnd = columns.numbers(`${prefix}_fact_end`) as Uint32Array;
  return {
    count: start.length,
    laneFirst: columns.numbers(`${prefix}_lane_first`) as Uint32Array,
    kind: columns.numbers(`${prefix}_kind`) as Uint8Array,
    name: columns.numbers(`${prefix}_name`) as Uint32Array,
    start,
    duration,
    blockEnd: blockEnds(start, duration),
    facts(row) {
      const index = indexOf(factRow, row);
      if (index < 0) return NO_FACTS;
      return JSON.parse(columns.text(`${prefix}_fact_text`, index ? factEnd[index - 1] : 0, factEnd[index]));
    },
  };
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
