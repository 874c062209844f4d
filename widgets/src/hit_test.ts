// What lies under the pointer, and the events that the keyboard goes along.

import { layOutMarks, MARK_RADIUS } from "./marks.ts";
import type { TraceData } from "./trace_data.ts";
import type { View } from "./time_scale.ts";

export type Hit =
  | { readonly sort: "instants"; readonly lane: number; readonly rows: readonly number[]; readonly row: number }
  | { readonly sort: "span"; readonly lane: number; readonly row: number; readonly outer: number }; // outer: row or -1

const TOLERANCE = 2; // pixels beside a span that still count

/** The mark or the innermost span at `x` pixels of a lane; null where the lane is idle. */
export function hitTest(data: TraceData, lane: number, view: View, width: number, x: number): Hit | null {
  const marks = layOutMarks(data, lane, view, width);
  for (let i = marks.length - 1; i >= 0; i--) {
    const { rows, row } = marks[i];
    const reach = data.header.marks[data.instants.kind[row]].level === 0 ? TOLERANCE : MARK_RADIUS + 1;
    if (Math.abs(marks[i].x - x) <= reach) return { sort: "instants", lane, rows, row };
  }
  const scale = width / (view.end - view.start);
  return spanAt(data, lane, view.start + x / scale, TOLERANCE / scale);
}

/** The innermost span of a lane at a moment: of the greatest level, among equals the shortest. */
export function spanAt(data: TraceData, lane: number, time: number, tolerance: number): Hit | null {
  const { spans, header } = data;
  let best = -1;
  let outer = -1;
  let bestExact = false;
  spans.stretches(lane, time - tolerance, time + tolerance, (from, to) => {
    for (let row = from; row < to; row++) {
      const begin = spans.start[row];
      const end = begin + spans.duration[row];
      if (end < time - tolerance || begin > time + tolerance) continue;
      const exact = begin <= time && time <= end;
      const level = header.kinds[spans.kind[row]].level;
      if (exact && level === 0) outer = row;
      if (best < 0 || better(row, exact, level)) {
        best = row;
        bestExact = exact;
      }
    }
  });
  if (best < 0) return null;
  return { sort: "span", lane, row: best, outer: outer === best ? -1 : outer };

  function better(row: number, exact: boolean, level: number): boolean {
    const bestLevel = header.kinds[spans.kind[best]].level;
    // near misses count only where nothing but an outer span is hit exactly
    if (level !== bestLevel && (exact === bestExact || bestLevel === 0)) return level > bestLevel;
    if (exact !== bestExact) return exact && level >= bestLevel;
    return spans.duration[row] <= spans.duration[best];
  }
}
