// One level of a pyramid: the seconds of each category in each bin of time, and what of them a picture shows.

/** What is seen of each bin, of outer spans (level 0) or of those inside them. */
export class Shown {
  readonly seconds: Float32Array; // of all categories
  readonly most: Float32Array; // of the one that is seen: that of the greatest level, among equals the longest
  readonly kind: Uint8Array; // which that is

  constructor(bins: number) {
    [this.seconds, this.most, this.kind] = [new Float32Array(bins), new Float32Array(bins), new Uint8Array(bins)];
  }

  clear(from: number, to: number): void {
    this.seconds.fill(0, from, to);
    this.most.fill(0, from, to);
  }

  add(bin: number, kind: number, seconds: number, levelOf: Uint8Array): void {
    const before = levelOf[this.kind[bin]];
    if (this.seconds[bin] === 0 || levelOf[kind] > before || (levelOf[kind] === before && seconds > this.most[bin])) {
      this.most[bin] = seconds;
      this.kind[bin] = kind;
    }
    this.seconds[bin] += seconds;
  }
}

export class Level {
  width = 0; // of a bin, seconds
  readonly sums: (Float32Array | undefined)[] = []; // of each category
  readonly outer: Shown;
  readonly inner: Shown;
  private staleFrom = 0; // bins whose sums have changed since they were shown
  private staleTo = 0;

  constructor(readonly bins: number) {
    [this.outer, this.inner] = [new Shown(bins), new Shown(bins)];
  }

  /** The sums of these bins have changed. */
  touch(from: number, to: number): void {
    [this.staleFrom, this.staleTo] = this.staleTo > this.staleFrom ? [Math.min(this.staleFrom, from), Math.max(this.staleTo, to)] : [from, to];
  }

  /** Takes its sums from the level below, in some of its bins. */
  sumUp(below: Level, from: number, to: number): void {
    below.sums.forEach((halves, kind) => {
      const sums = (this.sums[kind] ??= new Float32Array(this.bins));
      if (halves) for (let bin = from; bin < to; bin++) sums[bin] = halves[2 * bin] + halves[2 * bin + 1];
    });
    this.touch(from, to);
  }

  /** Brings what is shown up to date; `levelOf` has the level of each category. */
  show(levelOf: Uint8Array): void {
    const [from, to] = [this.staleFrom, this.staleTo];
    if (from >= to) return;
    for (const shown of [this.outer, this.inner]) shown.clear(from, to);
    this.sums.forEach((sums, kind) => {
      const shown = levelOf[kind] === 0 ? this.outer : this.inner;
      if (sums) for (let bin = from; bin < to; bin++) if (sums[bin] > 0) shown.add(bin, kind, sums[bin], levelOf);
    });
    this.staleFrom = this.staleTo = 0;
  }
}
