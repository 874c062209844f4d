// What the tasks of the present branch do at this moment, as spans that have begun and not ended: the log holds a span only
// when it is over. Where the kernel knows since when, it says so. Else a down time begins with the last serious event of its lane,
// and work with the end of what the task did before, and not before the last moment at which it was seen to do something else.

import type { LiveTrace } from "./live_trace.ts";
import type { Source } from "./source.ts";
import { colorOf, styleOf } from "./task_states.ts";
import type { OpenSpan } from "./timeline_painter.ts";
import { DOWN_LEVEL } from "./trace_data.ts";

const WORKING = new Set(["reading", "computing", "updating", "slow"]);
const IS_DOWN = new Set(["down", "restarting"]);
const DEADLY = new Set(["crash", "lose_host"]);
const ROUNDING = 1e-6; // of a moment: lengths of spans have seven digits, and a crash ends what was under way

export class OpenSpans {
  private states: readonly string[] = [];
  private since: number[] = []; // for each task, a moment before which its present state did not begin
  private seen = 0; // the moment of those states
  private branch = -1;

  constructor(private readonly source: Source) {}

  now(): OpenSpan[] {
    const { tasks, since_s, now_s, branch } = this.source.state();
    this.look(tasks, now_s, branch);
    const trace = this.source.trace(branch);
    const lanes = new Map(trace.header.lanes.map((lane, index) => [lane, index]));
    const crashes = tasks.some((state) => IS_DOWN.has(state)) ? lastSerious(trace) : new Map<number, number>();
    return tasks.flatMap((state, index): OpenSpan[] => {
      const lane = lanes.get(this.source.layout.tasks[index]?.name ?? "");
      const isDown = IS_DOWN.has(state);
      if (lane === undefined || (!isDown && !WORKING.has(state))) return [];
      const start = since_s[index] ?? (isDown ? crashes.get(lane) : Math.max(lastEnd(trace, lane, now_s), this.since[index]));
      const color = colorOf(styleOf(isDown ? "down" : state === "slow" ? "computing" : state), this.source.layout);
      return start === undefined || start >= now_s ? [] : [{ lane, start, end: now_s, color, isDown }];
    });
  }

  /** Remembers what the tasks do, and until when each did something else. */
  private look(tasks: readonly string[], now: number, branch: number): void {
    if (branch !== this.branch || now < this.seen) this.since = tasks.map(() => 0);
    else if (now > this.seen) this.since = tasks.map((state, index) => (state === this.states[index] ? this.since[index] : this.seen));
    [this.states, this.seen, this.branch] = [tasks, now, branch];
  }
}

/** The tasks of a branch that is not shown that are dead for good: nothing has come from them since a crash. */
export function deadSpans(trace: LiveTrace, now: number): OpenSpan[] {
  const color = trace.header.kinds.find(({ name }) => name === "down")?.color ?? "#e0424e";
  return [...lastSerious(trace, DEADLY)].flatMap(([lane, start]): OpenSpan[] => {
    const isOver = lastEnd(trace, lane, Infinity) > start * (1 + ROUNDING) || start >= now;
    return isOver ? [] : [{ lane, start, end: now, color, isDown: true }];
  });
}

/** When the last event of level 3, or of some kinds of them, befell each lane. */
function lastSerious(trace: LiveTrace, kinds: ReadonlySet<string> | null = null): Map<number, number> {
  const found = new Map<number, number>();
  for (const row of trace.eventRows()) {
    const { level, name } = trace.header.marks[trace.instants.kind[row]];
    if (level >= DOWN_LEVEL && (kinds?.has(name) ?? true)) found.set(trace.instants.laneOf(row), trace.instants.start[row]);
  }
  return found;
}

/** When the last span of a lane ended; the beginning where it has none. Outer spans and inner ones end together, so a few rows do. */
function lastEnd({ spans }: LiveTrace, lane: number, now: number): number {
  let end = 0;
  let row = spans.lastOf(lane);
  for (let looked = 0; row >= 0 && looked < 8; looked++, row = spans.next(row, -1)) end = Math.max(end, spans.start[row] + spans.duration[row]);
  return Math.min(end, now);
}
