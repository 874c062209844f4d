// The time axis without a screen: which stretch of virtual time is in view, and where its ticks go.
//
// A view is never wider than its bounds and never narrower than what a double can tell apart at that moment.

export interface View {
  readonly start: number; // seconds
  readonly end: number; // seconds, greater than start
}

export interface Tick {
  readonly time: number; // seconds
  readonly label: string;
}

export interface Axis {
  readonly ticks: readonly Tick[];
  readonly step: number; // seconds between two ticks
  readonly base: string; // what every label is relative to, "" for the start of the run
}

const MARGIN = 0.015; // of the run, so that a mark at its very end is not cut
const UNITS: readonly [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

/** The view that shows a whole run. */
export function fit(first: number, last: number): View {
  const length = last > first ? last - first : 1;
  return { start: first - length * MARGIN, end: last + length * MARGIN };
}

/** The view after zooming: `factor` below 1 shows less time; the moment `centre` stays where it is. */
export function zoom(view: View, factor: number, centre: number, bounds: View): View {
  const length = view.end - view.start;
  const wanted = Math.min(Math.max(length * factor, narrowest(bounds)), bounds.end - bounds.start);
  const left = (centre - view.start) / length;
  return inside({ start: centre - left * wanted, end: centre + (1 - left) * wanted }, bounds);
}

/** The view moved by `delta` seconds, as far as the bounds allow. */
export function pan(view: View, delta: number, bounds: View): View {
  return inside({ start: view.start + delta, end: view.end + delta }, bounds);
}

/** The view of the same length with `time` in the middle. */
export function centreOn(view: View, time: number, bounds: View): View {
  return pan(view, time - (view.start + view.end) / 2, bounds);
}

/** The same length of time, moved so that it lies in the bounds. */
export function inside(view: View, bounds: View): View {
  const length = Math.min(view.end - view.start, bounds.end - bounds.start);
  const start = Math.min(Math.max(view.start, bounds.start), bounds.end - length);
  return { start, end: start + length };
}

function narrowest(bounds: View): number {
  return Math.max(1e-8, 64 * Number.EPSILON * Math.max(Math.abs(bounds.start), Math.abs(bounds.end)));
}

/** Ticks at round times, at least `gap` pixels apart, with one unit for all of them. */
export function axis(view: View, width: number, gap = 96): Axis {
  const step = roundStep(((view.end - view.start) / Math.max(width, 1)) * gap);
  const { unit, name, digits } = unitFor(view, step);
  const group = unit * 1000;
  const far = unit < 1 && Math.max(Math.abs(view.start), Math.abs(view.end)) / unit >= 1e5;
  const base = far ? Math.floor(view.start / group) * group : 0;
  const ticks: Tick[] = [];
  const first = Math.ceil(view.start / step - 1e-9);
  for (let i = first; i * step <= view.end + step * 1e-9; i++) {
    const value = ((i * step - base) / unit).toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1");
    ticks.push({ time: i * step, label: `${far ? "+" : ""}${value} ${name}` });
  }
  const baseDigits = Math.max(0, Math.round(-Math.log10(group)));
  return { ticks, step, base: far ? `${base.toFixed(baseDigits)} s` : "" };
}

/** The next step of 1, 2 or 5 times a power of ten that is at least `least`. */
export function roundStep(least: number): number {
  const exponent = Math.floor(Math.log10(least) + 1e-12);
  const mantissa = least / 10 ** exponent;
  const round = [1, 2, 5, 10].find((candidate) => mantissa <= candidate * (1 + 1e-9)) ?? 10;
  const power = exponent + (round === 10 ? 1 : 0);
  const digit = round === 10 ? 1 : round;
  return power < 0 ? digit / 10 ** -power : digit * 10 ** power; // a division keeps 0.001 exact
}

function unitFor(view: View, step: number): { unit: number; name: string; digits: number } {
  const size = Math.max(Math.abs(view.start), Math.abs(view.end));
  for (const [unit, name] of UNITS) {
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    if (size >= unit && digits <= 2) return { unit, name, digits };
  }
  const [unit, name] = UNITS[3];
  return { unit, name, digits: Math.min(3, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9))) };
}
