// Numbers that change over virtual time, as they were recorded: one series for each lane and name.

import { withRoom } from "./growing.ts";

/** Moments in ascending order, and a value for each. */
export interface Samples {
  readonly times: readonly number[] | Float64Array;
  readonly values: readonly number[] | Float64Array;
}

export class Series {
  length = 0;
  private times = new Float64Array(64);
  private values = new Float64Array(64);

  constructor(
    readonly lane: string,
    readonly name: string,
  ) {}

  append(time: number, value: number): void {
    this.times = withRoom(this.times, this.length + 1);
    this.values = withRoom(this.values, this.length + 1);
    this.times[this.length] = time;
    this.values[this.length] = value;
    this.length += 1;
  }

  /** All that was recorded so far, to be read only. */
  all(): Samples {
    return { times: this.times.subarray(0, this.length), values: this.values.subarray(0, this.length) };
  }

  /** The last moment with a value; before all moments where there is none. */
  get end(): number {
    return this.length ? this.times[this.length - 1] : -Infinity;
  }

  /** At most about `most` points of a stretch of time and the next beside it; its ends and the extremes of what is left out stay. */
  points(most: number, from = -Infinity, to = Infinity): { times: number[]; values: number[] } {
    const first = Math.max(this.countUntil(from) - 1, 0);
    const stop = Math.min(this.countUntil(to) + 1, this.length);
    const every = Math.max(1, Math.ceil(((stop - first) * 2) / most));
    const kept: number[] = [];
    const keep = (i: number): void => void (kept.at(-1) !== i && kept.push(i));
    if (first < stop) keep(first);
    for (let at = first; at < stop; at += every) {
      let [low, high] = [at, at];
      for (let i = at; i < Math.min(at + every, stop); i++) {
        if (this.values[i] < this.values[low]) low = i;
        if (this.values[i] > this.values[high]) high = i;
      }
      keep(Math.min(low, high));
      keep(Math.max(low, high));
    }
    if (first < stop) keep(stop - 1);
    return { times: kept.map((i) => this.times[i]), values: kept.map((i) => this.values[i]) };
  }

  /** The value at a moment, that of the last change before it; null before the first. */
  at(time: number): number | null {
    const count = this.countUntil(time);
    return count ? this.values[count - 1] : null;
  }

  /** How many values are not later than a moment. */
  private countUntil(time: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.times[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
