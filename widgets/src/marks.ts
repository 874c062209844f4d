// Which instants are drawn where. Instants that would touch share one mark, and the most serious of them is shown.
//
// Levels come from Python: 0 a note (placement, observation), 1 recovery (restart, detection), 2 retry, cancel,
// 3 fault, crash, error. A note is drawn as a small tick and never hides a mark.

import type { TraceData } from "./trace_data.ts";
import type { View } from "./time_scale.ts";

export const MARK_RADIUS = 7; // pixels
export const NOTE_LEVEL = 0;

export interface Mark {
  readonly x: number; // pixels
  readonly row: number; // the instant that is shown
  readonly rows: readonly number[]; // all instants under this mark, in order of time
}

/** The marks of one lane in drawing order: first the notes, then the rest, each from left to right. */
export function layOutMarks(data: TraceData, lane: number, view: View, width: number): Mark[] {
  const { instants, header } = data;
  const scale = width / (view.end - view.start);
  const reach = MARK_RADIUS / scale;
  const notes: Group[] = [];
  const marks: Group[] = [];
  instants.stretches(lane, view.start - reach, view.end + reach, (from, to) => {
    for (let row = from; row < to; row++) {
      if (instants.start[row] < view.start - reach) continue;
      const x = (instants.start[row] - view.start) * scale;
      const level = header.marks[instants.kind[row]].level;
      if (level === NOTE_LEVEL) add(notes, x, row, level, 2);
      else add(marks, x, row, level, 2 * MARK_RADIUS - 2);
    }
  });
  return [...notes, ...marks];
}

interface Group {
  x: number;
  row: number;
  rows: number[];
  level: number;
}

function add(groups: Group[], x: number, row: number, level: number, distance: number): void {
  const last = groups.at(-1);
  if (!last || x - last.x >= distance) {
    groups.push({ x, row, rows: [row], level });
    return;
  }
  last.rows.push(row);
  if (level > last.level) {
    last.row = row;
    last.level = level;
  }
}
