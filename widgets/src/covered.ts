// What the spans of one lane cover, so that time that several of them share counts once.

const MOST = 64; // stretches that are kept; what lies before them counts as covered

export class Covered {
  private readonly stretches: [number, number][] = []; // in order, and apart
  private before = -Infinity;

  /** Adds a span; returns the parts of it that nothing has covered. */
  add(start: number, end: number): readonly [number, number][] {
    let at = Math.max(start, this.before);
    const free: [number, number][] = [];
    const merged: [number, number] = [at, end];
    let first = this.stretches.length; // spans come nearly in order: what they touch is among the last
    while (first > 0 && this.stretches[first - 1][1] >= at) first -= 1;
    let next = first;
    for (; next < this.stretches.length && this.stretches[next][0] <= end; next++) {
      const [from, to] = this.stretches[next];
      if (from > at) free.push([at, from]);
      at = Math.max(at, to);
      [merged[0], merged[1]] = [Math.min(merged[0], from), Math.max(merged[1], to)];
    }
    if (at < end) free.push([at, end]);
    if (merged[0] < merged[1]) this.stretches.splice(first, next - first, merged);
    if (this.stretches.length > MOST) this.before = this.stretches.shift()?.[1] ?? this.before;
    return free;
  }
}
