// Which charts there are for a trace, and their points: every counter by name, and how busy the workers were.

import type { Samples } from "./counters.ts";
import type { LiveTrace } from "./live_trace.ts";
import type { View } from "./time_scale.ts";

export interface ChartLine {
  readonly label: string;
  readonly times: readonly number[];
  readonly values: readonly number[];
  readonly readings: Samples; // all that is known, of which the line is drawn through some points
  readonly isOther: boolean; // of the branch that this one is compared with
}

export interface ChartData {
  readonly name: string;
  readonly lines: readonly ChartLine[];
  readonly isShare: boolean; // from 0 to 1
  readonly isStepped: boolean; // a value holds until the next one
}

const MOST_POINTS = 500; // of a line
const MOST_CHARTS = 6;
const MOST_LINES = 8; // of a chart
const STEPPED = /queue|waiting|in.flight|alive|depth/;
const FIRST = ["loss", "accuracy"]; // what people look for

/** A branch of which charts are drawn. */
export interface Charted {
  readonly trace: LiveTrace;
  readonly now: number;
  readonly isOver: boolean; // nothing more can come, and all spans have ended
}

const WHOLE: View = { start: -Infinity, end: Infinity };

/** The charts of a branch, and of another one that it is compared with, for a stretch of time. */
export function chartsOf(branch: Charted, other: Charted | null = null, view = WHOLE): ChartData[] {
  const names = [...new Set([...branch.trace.series.values()].map(({ name }) => name))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en"));
  const counters = names.slice(0, MOST_CHARTS - 1).map((name): ChartData => {
    const isStepped = STEPPED.test(name);
    const lines = [...linesOf(branch, name, isStepped, view, false), ...(other ? linesOf(other, name, isStepped, view, true) : [])];
    return { name, lines, isShare: false, isStepped };
  });
  const busy = [busyLine(branch, false), ...(other ? [busyLine(other, true)] : [])];
  return [...counters, { name: "busy workers", lines: busy, isShare: true, isStepped: false }];
}

/** Where the charts of a branch end: at the present, or with the last record once nothing more can come. */
export function endOf({ trace, now, isOver }: Charted): number {
  const { last_s } = trace.header;
  return isOver && last_s > 0 ? Math.min(now, last_s) : now;
}

/** The time that charts show: what the reader asks for, [] for the whole run, without what is empty after its end. */
export function shownTime(asked: readonly number[], end: number): View {
  if (asked.length !== 2 || !(asked[1] > asked[0])) return { start: 0, end: end > 0 ? end : 1 };
  const start = Math.max(asked[0], 0);
  return { start, end: end > start ? Math.min(asked[1], end) : asked[1] };
}

function rank(name: string): number {
  const index = FIRST.findIndex((word) => name.includes(word));
  return index < 0 ? FIRST.length : index;
}

function linesOf({ trace, now }: Charted, name: string, isStepped: boolean, view: View, isOther: boolean): ChartLine[] {
  const found = [...trace.series.values()].filter((series) => series.name === name).slice(0, MOST_LINES);
  return found.map((series) => {
    const { times, values } = series.points(MOST_POINTS, view.start, view.end);
    const last = series.at(now);
    if (isStepped && now > series.end && last !== null) {
      times.push(now); // it holds up to the present
      values.push(last);
    }
    return { label: found.length > 1 ? series.lane : name, times, values, readings: series.all(), isOther };
  });
}

/** How busy the workers were, up to where no span that is still open can change it. */
function busyLine({ trace, now, isOver }: Charted, isOther: boolean): ChartLine {
  const known = isOver ? now : now - trace.busy.longest;
  const shares = trace.busyShares(Math.min(known, trace.header.last_s));
  return { label: "busy workers", ...shares, readings: shares, isOther };
}

/** The value of a line at a moment: of a stepped one that of the last reading, else that of the nearest; null before the first step. */
export function valueAt({ times, values }: Samples, time: number, isStepped: boolean): number | null {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle] > time) high = middle;
    else low = middle + 1;
  }
  if (low === 0) return isStepped || times.length === 0 ? null : values[0];
  const isNext = !isStepped && low < times.length && times[low] - time < time - times[low - 1];
  return values[isNext ? low : low - 1];
}

/** A value as it stands beside its chart. */
export function formatValue(value: number | null, isShare: boolean): string {
  if (value === null || !Number.isFinite(value)) return "–";
  if (isShare) return `${Math.round(value * 100)} %`;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3);
}
