// A small collective for the tests of the front end: two ranks add up two chunks, then tell each other.

import { StepperData, type StepperHeader, type Transfer } from "./stepper_data.ts";

const ADDING: readonly Transfer[] = [
  { source: 0, target: 1, adds: true, chunks: [0], lanes: [0] },
  { source: 1, target: 0, adds: true, chunks: [1], lanes: [0] },
];
const PASSING: readonly Transfer[] = [
  { source: 1, target: 0, adds: false, chunks: [0], lanes: [0] },
  { source: 0, target: 1, adds: false, chunks: [1], lanes: [0] },
];
const HELD = [[1, 1, 2, 2], [1, 3, 3, 2], [3, 3, 3, 3]]; // moment, then rank and chunk
const NEEDED = [[1, 1, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]];

/** The collective; with `values`, its chunks hold 1, 2 and 10, 20. `shift` moves the bytes to an odd address. */
export function twoRanks(values = false, shift = 0, changes: Partial<StepperHeader> = {}): StepperData {
  const complete = HELD.flat().map((bits) => (bits === 3 ? 1 : 0));
  const numbers = values ? [1, 2, 10, 20, 1, 22, 11, 20, 11, 22, 11, 22] : [];
  const bytes = new Uint8Array(shift + 48 + numbers.length * 8);
  bytes.set(HELD.flat(), shift);
  bytes.set(NEEDED.flat(), shift + 16);
  bytes.set(complete, shift + 32);
  const view = new DataView(bytes.buffer, shift);
  numbers.forEach((value, index) => view.setFloat64(48 + 8 * index, value, true));
  return new StepperData({ ...header(numbers.length), ...changes }, view);
}

function header(numbers: number): StepperHeader {
  const record = (text: string, end_s: number, sent_bytes: number, complete: number, transfers: readonly Transfer[]) => ({
    text, end_s, sent_bytes, busiest_bytes: sent_bytes / 2, complete, transfers,
  });
  return {
    version: 1,
    name: "ring all-reduce",
    sums: true,
    num_ranks: 2,
    num_chunks: 2,
    size_bytes: 2048,
    results: 4,
    colors: ["#0072b2", "#e69f00"],
    steps: [record("begin.", 0, 0, 0, []), record("add.", 0.5, 2048, 2, ADDING), record("pass.", 1, 4096, 4, PASSING)],
    columns: {
      held: { dtype: "u1", offset: 0, length: 12 },
      needed: { dtype: "u1", offset: 16, length: 12 },
      complete: { dtype: "u1", offset: 32, length: 12 },
      numbers: { dtype: "f8", offset: 48, length: numbers },
    },
  };
}
