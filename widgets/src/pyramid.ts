// How busy a lane was, in bins of time of several widths: each level has bins twice as wide as the one below. A lane with more spans than
// pixels is drawn from the level whose bins are just narrower than a pixel, so that a million spans in view cost what the pixels cost.
//
// Spans are added in any order and never taken away. Where a run grows beyond the last bin, bins become twice as wide.

import { Level } from "./pyramid_level.ts";

export const BINS = 8192; // of the lowest level
const LEVELS = 7; // the highest has 128 bins
const LEAST_S = 1e-18; // of a span without duration, so that its category is known to be there
const ROUNDING = 1e-6; // of a bin, by which a span may reach into one and not count there
const FIRST_WIDTH_S = 1e-9; // of a bin, where nothing is known of the run

export class Pyramid {
  private readonly levels = Array.from({ length: LEVELS }, (_, number) => new Level(BINS >> number));
  private width: number; // of a bin of the lowest level, seconds
  private newFrom = BINS; // bins of the lowest level that the others do not know yet
  private newTo = 0;

  /** For a run that ends at `end`, as far as is known. */
  constructor(end: number) {
    this.width = end > 0 ? end / BINS : FIRST_WIDTH_S;
  }

  add(kind: number, start: number, duration: number): void {
    const end = start + duration;
    while (end > this.width * BINS) this.widen();
    const { width } = this;
    const sums = (this.levels[0].sums[kind] ??= new Float32Array(BINS));
    const first = start > 0 ? Math.min(Math.floor(start / width + ROUNDING), BINS - 1) : 0;
    const last = Math.min(Math.max(first, Math.ceil(end / width - ROUNDING) - 1), BINS - 1);
    if (first === last) sums[first] += Math.max(duration, LEAST_S);
    else {
      sums[first] += (first + 1) * width - Math.max(start, 0);
      for (let bin = first + 1; bin < last; bin++) sums[bin] += width;
      sums[last] += end - last * width;
    }
    this.changed(first, last + 1);
  }

  /** The level whose bins are as wide as possible, but not wider than `most` seconds; null: all are wider. `levelOf`: of each category. */
  level(most: number, levelOf: Uint8Array): Level | null {
    const number = Math.min(Math.floor(Math.log2(most / this.width)), LEVELS - 1);
    if (number < 0) return null;
    this.sumUp();
    const level = this.levels[number];
    level.width = this.width * 2 ** number;
    level.show(levelOf);
    return level;
  }

  private changed(from: number, to: number): void {
    this.newFrom = Math.min(this.newFrom, from);
    this.newTo = Math.max(this.newTo, to);
  }

  private sumUp(): void {
    let [from, to] = [this.newFrom, this.newTo];
    if (from >= to) return;
    this.levels[0].touch(from, to);
    for (let number = 1; number < LEVELS; number++) {
      [from, to] = [from >> 1, (to + 1) >> 1];
      this.levels[number].sumUp(this.levels[number - 1], from, to);
    }
    [this.newFrom, this.newTo] = [BINS, 0];
  }

  private widen(): void {
    this.width *= 2;
    for (const sums of this.levels[0].sums) {
      if (!sums) continue;
      for (let bin = 0; bin < BINS / 2; bin++) sums[bin] = sums[2 * bin] + sums[2 * bin + 1];
      sums.fill(0, BINS / 2);
    }
    this.changed(0, BINS);
  }
}
