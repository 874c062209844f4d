// A collective as it arrives from Python: a small JSON header, and bytes that say what every chunk holds at every moment.
//
// Moment 0 is before the first step, moment s after step s. Nothing is worked out here: see collective_data.py.

import type { ColumnPlace } from "./trace_data.ts";

export interface Transfer {
  readonly source: number;
  readonly target: number;
  readonly adds: boolean; // otherwise it replaces what the target holds
  readonly chunks: readonly number[];
  readonly lanes: readonly number[]; // of the arrows, one for each chunk
}

export interface StepRecord {
  readonly text: string;
  readonly end_s: number;
  readonly sent_bytes: number; // by all ranks, from the beginning
  readonly busiest_bytes: number; // by the rank that sent most
  readonly complete: number; // chunks
  readonly transfers: readonly Transfer[];
}

export interface StepperHeader {
  readonly version: number;
  readonly name: string;
  readonly sums: boolean; // whether the collective is there for a sum
  readonly num_ranks: number;
  readonly num_chunks: number;
  readonly size_bytes: number; // of each rank
  readonly results: number; // chunks that are complete in the end, if the schedule is right
  readonly colors: readonly string[]; // of the ranks, #rrggbb
  readonly steps: readonly StepRecord[]; // one for each moment
  readonly columns: Readonly<Record<string, ColumnPlace>>;
}

/** What one chunk of one rank holds at one moment. */
export interface Chunk {
  readonly contributors: readonly number[];
  readonly needed: boolean; // it still reaches a result
  readonly complete: boolean;
  readonly value: number | null;
}

export class StepperData {
  readonly last: number; // moment
  private readonly held: Uint8Array;
  private readonly needed: Uint8Array;
  private readonly complete: Uint8Array;
  private readonly values: DataView;

  constructor(
    readonly header: StepperHeader,
    bytes: DataView,
  ) {
    if (header.version !== 1) throw new Error(`unknown format ${header.version}: reinstall simdist_widgets`);
    const column = (name: string, itemBytes = 1): DataView => {
      const { offset, length } = header.columns[name];
      return new DataView(bytes.buffer, bytes.byteOffset + offset, length * itemBytes);
    };
    this.last = header.steps.length - 1;
    this.held = asBytes(column("held"));
    this.needed = asBytes(column("needed"));
    this.complete = asBytes(column("complete"));
    this.values = column("numbers", 8);
  }

  chunk(moment: number, rank: number, chunk: number): Chunk {
    const { num_ranks, num_chunks } = this.header;
    const index = (moment * num_ranks + rank) * num_chunks + chunk;
    const width = Math.ceil(num_ranks / 8);
    const contributors: number[] = [];
    for (let other = 0; other < num_ranks; other++) {
      if ((this.held[index * width + (other >> 3)] >> (other & 7)) & 1) contributors.push(other);
    }
    return {
      contributors,
      needed: this.needed[index] === 1,
      complete: this.complete[index] === 1,
      value: this.values.byteLength ? this.values.getFloat64(index * 8, true) : null,
    };
  }
}

function asBytes(view: DataView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
