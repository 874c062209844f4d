// Numbers that change over virtual time, as they were recorded: one series for each lane and name.

import { withRoom } from "./growing.ts";

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

  /** At most about `most` points, of the first to the last; the extremes of what is left out stay. */
  points(most: number): { times: number[]; values: number[] } {
    const [times, values]: number[][] = [[], []];
    const every = Math.max(1, Math.ceil((this.length * 2) / most));
    for (let from = 0; from < this.length; from += every) {
      let [low, high] = [from, from];
      for (let i = from; i < Math.min(from + every, this.length); i++) {
        if (this.values[i] < this.values[low]) low = i;
        if (this.values[i] > this.values[high]) high = i;
      }
      for (const i of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
        times.push(this.times[i]);
        values.push(this.values[i]);
      }
    }
    return { times, values };
  }

  /** The value at a moment, that of the last change before it; null before the first. */
  at(time: number): number | null {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.times[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low ? this.values[low - 1] : null;
  }
}
