// A table of spans or of instants: columns, and rows that are found by lane and time.
//
// Row numbers index the columns. The rows of a lane are in order of start, but need not lie together: `stretches`,
// `next` and `firstAfter` are the ways along a lane. A snapshot's rows never change; a growing table may replace its
// columns and move rows whenever something is appended, so nobody keeps a column or a row across that.

import { Groups } from "./groups.ts";
import { Pyramid } from "./pyramid.ts";

export const BLOCK = 512;

export interface Table {
  readonly count: number;
  readonly kind: Uint8Array;
  readonly name: Uint32Array;
  readonly start: Float64Array; // seconds
  readonly duration: Float32Array; // seconds; of instants zero
  readonly groups: Groups;
  /** Calls `visit(from, to)` for stretches of rows of a lane that may touch [start, end]; each row must be checked. */
  stretches(lane: number, start: number, end: number, visit: (from: number, to: number) => void): void;
  /** Calls `visit(from, to)` for stretches that hold all rows. */
  all(visit: (from: number, to: number) => void): void;
  /** The first row of a lane that starts after `time` (or, with `orAt`, at it); -1 where there is none. */
  firstAfter(lane: number, time: number, orAt?: boolean): number;
  /** The next row of the same lane, or the one before; -1 at its end. */
  next(row: number, step: 1 | -1): number;
  /** The last row of a lane; -1 where it has none. */
  lastOf(lane: number): number;
  laneOf(row: number): number;
  /** The sums of a lane over bins of time; summed when first asked for. */
  pyramid(lane: number): Pyramid;
  /** How many rows are of a kind. */
  countOf(kind: number): number;
  facts(row: number): Readonly<Record<string, unknown>>;
}

/** The first row in [low, high) whose start is greater than `time`, or with `orAt` not less. */
export function firstAfter(start: Float64Array, low: number, high: number, time: number, orAt = false): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (start[middle] > time || (orAt && start[middle] === time)) high = middle;
    else low = middle + 1;
  }
  return low;
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

/** The columns of a snapshot; its rows are sorted by lane, then by start. */
export interface SortedColumns {
  readonly laneFirst: Uint32Array; // lanes + 1
  readonly kind: Uint8Array;
  readonly name: Uint32Array;
  readonly start: Float64Array;
  readonly duration: Float32Array;
  facts(row: number): Readonly<Record<string, unknown>>;
}

/** A table that is complete. Longer spans may reach into a window: blocks that end before it are skipped. */
export class SortedTable implements Table {
  readonly count: number;
  readonly laneFirst: Uint32Array;
  readonly kind: Uint8Array;
  readonly name: Uint32Array;
  readonly start: Float64Array;
  readonly duration: Float32Array;
  readonly groups = new Groups();
  private readonly blockEnd: Float64Array;
  private counts: Uint32Array | null = null;
  private readonly pyramids = new Map<number, Pyramid>();

  constructor(private readonly columns: SortedColumns) {
    ({ laneFirst: this.laneFirst, kind: this.kind, name: this.name, start: this.start, duration: this.duration } = columns);
    this.count = this.start.length;
    this.blockEnd = blockEnds(this.start, this.duration);
    if (this.count) this.groups.touch(this.count - 1); // makes room for all of them
  }

  stretches(lane: number, start: number, end: number, visit: (from: number, to: number) => void): void {
    const first = this.laneFirst[lane];
    const stop = firstAfter(this.start, first, this.laneFirst[lane + 1], end);
    for (let block = Math.floor(first / BLOCK); block * BLOCK < stop; block++) {
      if (this.blockEnd[block] < start) continue;
      visit(Math.max(first, block * BLOCK), Math.min(stop, (block + 1) * BLOCK));
    }
  }

  all(visit: (from: number, to: number) => void): void {
    visit(0, this.count);
  }

  firstAfter(lane: number, time: number, orAt = false): number {
    const stop = this.laneFirst[lane + 1];
    const row = firstAfter(this.start, this.laneFirst[lane], stop, time, orAt);
    return row < stop ? row : -1;
  }

  next(row: number, step: 1 | -1): number {
    const lane = this.laneOf(row);
    const wanted = row + step;
    return wanted >= this.laneFirst[lane] && wanted < this.laneFirst[lane + 1] ? wanted : -1;
  }

  lastOf(lane: number): number {
    return this.laneFirst[lane + 1] > this.laneFirst[lane] ? this.laneFirst[lane + 1] - 1 : -1;
  }

  laneOf(row: number): number {
    let low = 0;
    let high = this.laneFirst.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (this.laneFirst[middle] <= row) low = middle;
      else high = middle;
    }
    return low;
  }

  pyramid(lane: number): Pyramid {
    const known = this.pyramids.get(lane);
    if (known) return known;
    const end = this.blockEnd.reduce((latest, one) => Math.max(latest, one), 0);
    const pyramid = new Pyramid(end);
    for (let row = this.laneFirst[lane]; row < this.laneFirst[lane + 1]; row++) pyramid.add(this.kind[row], this.start[row], this.duration[row]);
    this.pyramids.set(lane, pyramid);
    return pyramid;
  }

  countOf(kind: number): number {
    if (!this.counts) {
      this.counts = new Uint32Array(256);
      for (let row = 0; row < this.count; row++) this.counts[this.kind[row]] += 1;
    }
    return this.counts[kind];
  }

  facts(row: number): Readonly<Record<string, unknown>> {
    return this.columns.facts(row);
  }
}
