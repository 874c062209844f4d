// Where the reader is in a trace, and what comes next from there. The keyboard goes on from the last thing that was
// chosen, by whatever means; from the beginning of the view only while nothing was.

import type { Hit } from "./hit_test.ts";
import type { TraceData } from "./trace_data.ts";

export interface Position {
  readonly lane: number;
  readonly time: number; // seconds
  readonly span: number; // a row, or -1
  readonly instant: number; // a row, or -1
}

/** The position of what was hit. */
export function atHit(data: TraceData, { lane, row, sort }: Hit): Position {
  if (sort === "span") return { lane, time: data.spans.start[row], span: row, instant: -1 };
  return { lane, time: data.instants.start[row], span: -1, instant: row };
}

/** The next span of a lane after a position, or before it; -1 where there is none. */
export function nextSpan(data: TraceData, lane: number, at: Position | null, step: 1 | -1, viewStart: number): number {
  const { spans } = data;
  if (at && at.span >= 0 && at.lane === lane) return spans.next(at.span, step);
  const row = spans.firstAfter(lane, at?.time ?? viewStart, true);
  if (step > 0) return row;
  return row < 0 ? spans.lastOf(lane) : spans.next(row, -1);
}

/** The next of `events` (rows of instants in order of time) after a position, or before it, around the end; -1 if there are none. */
export function nextEvent(data: TraceData, events: Uint32Array, at: Position | null, step: 1 | -1, viewStart: number): number {
  if (events.length === 0) return -1;
  const known = at ? events.indexOf(at.instant) : -1;
  const time = at?.time ?? viewStart;
  let index = known + step;
  if (known < 0) {
    index = events.findIndex((row) => data.instants.start[row] >= time);
    if (index < 0) index = events.length;
    if (step < 0) index -= 1;
  }
  return events[(index + events.length) % events.length];
}
