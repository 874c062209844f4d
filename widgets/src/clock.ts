// Virtual time and pace in words and figures.

import { enteredNumber, twoReadings } from "./entered_number.ts";
import { formatDuration } from "./format.ts";

const UNITS: readonly [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const PACES = [1, 2, 5];
const MOMENT = /^\s*(\d*[.,]?\d+(?:e[+-]?\d+)?|\d+[.,])\s*(s|ms|us|µs|ns)?\s*$/i;

/** A moment as a clock shows it: always three decimals of the unit that fits the whole run, so that figures stand still. */
export function clock(seconds: number, run: number): readonly [string, string] {
  const [unit, name] = UNITS.find(([size]) => run >= size * 0.9999) ?? UNITS[2];
  return [(seconds / unit).toFixed(3), name];
}

/** "2 ms a second" */
export function paceInWords(pace: number): string {
  return `${formatDuration(Number(pace.toPrecision(2)))} a second`;
}

/** The next pace of 1, 2 or 5 times a power of ten. */
export function nextPace(pace: number, step: 1 | -1): number {
  const exponent = Math.floor(Math.log10(pace) + 1e-9);
  const all = [exponent - 1, exponent, exponent + 1].flatMap((power) => PACES.map((digit) => Number(`${digit}e${power}`)));
  const found = step > 0 ? all.find((other) => other > pace * 1.001) : all.findLast((other) => other < pace * 0.999);
  return Math.min(Math.max(found ?? pace, 1e-9), 1e6);
}

/** How long something will take, roughly and in real time: "0.4 s", "at once". */
export function roughly(seconds: number): string {
  if (seconds < 0.1) return "at once";
  return seconds < 10 ? `about ${seconds.toFixed(1)} s` : `about ${Math.round(seconds)} s`;
}

/** A moment as it is typed, in seconds: "0.0075", "7.5 ms"; null where it is none, or can be read in two ways. */
export function secondsOf(text: string): number | null {
  const found = MOMENT.exec(text);
  if (!found || twoReadings(found[1])) return null;
  const unit = (found[2] ?? "s").toLowerCase().replace("us", "µs");
  const size = UNITS.find(([, name]) => name === unit)?.[0] ?? 1;
  return Number((enteredNumber(found[1]) * size).toPrecision(12));
}

/** Why a text is no moment: what to write in its place. */
export function whyNoMoment(text: string): string {
  const ambiguous = twoReadings(text.replace(/[a-zµ\s]+$/i, ""));
  return ambiguous ? `It can be read in two ways: ${ambiguous}.` : "Write seconds, for example 0.0075, or 7.5 ms.";
}
