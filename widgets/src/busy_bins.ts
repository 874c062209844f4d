// How busy lanes were, in bins of equal length that double whenever the run has outgrown them.
//
// A span adds to the bins what it covers and no earlier one of its lane did, so an append costs little however long the run is, and no bin is
// ever computed again from the spans.

import { Covered } from "./covered.ts";

export const BINS = 512;
const LEAST_PART = 0.6; // of the last bin
const FORGETTING = 0.98; // of the longest span, with every span

export class BusyBins {
  private seconds = new Float64Array(BINS);
  private readonly covered = new Map<string, Covered>();
  longest = 0; // of late spans, seconds: so far before the present, spans may be missing that have not ended
  width: number; // of a bin, seconds

  constructor(first = 1e-6) {
    this.width = first;
  }

  add(lane: string, start: number, duration: number): void {
    const covered = this.covered.get(lane) ?? new Covered();
    this.covered.set(lane, covered);
    this.longest = Math.max(this.longest * FORGETTING, duration);
    const end = start + duration;
    while (end > this.width * BINS) this.double();
    for (const [from, to] of covered.add(Math.max(start, 0), end)) this.fill(from, to);
  }

  /** The lanes that have worked. */
  get lanes(): readonly string[] {
    return [...this.covered.keys()];
  }

  /** The share of so many lanes that was busy, at the middle of each bin up to `end`; fewer bins than `most`. */
  shares(end: number, lanes: number, most = 160): { times: number[]; values: number[] } {
    const used = Math.min(BINS, Math.ceil(end / this.width - 1e-9));
    const group = Math.max(1, Math.ceil(used / most));
    const [times, values]: number[][] = [[], []];
    for (let bin = 0; bin < used; bin += group) {
      const [from, to] = [bin * this.width, Math.min((bin + group) * this.width, end)];
      if (to - from < LEAST_PART * group * this.width && times.length) break; // so little would be an accident
      let sum = 0;
      for (let i = bin; i < Math.min(bin + group, BINS); i++) sum += this.seconds[i];
      times.push((from + to) / 2);
      values.push(lanes > 0 ? Math.min(1, sum / lanes / Math.max(to - from, 1e-12)) : 0);
    }
    return { times, values };
  }

  private fill(start: number, end: number): void {
    for (let bin = Math.floor(start / this.width); bin < BINS && bin * this.width < end; bin++) {
      this.seconds[bin] += Math.max(0, Math.min(end, (bin + 1) * this.width) - Math.max(start, bin * this.width));
    }
  }

  private double(): void {
    const wider = new Float64Array(BINS);
    for (let bin = 0; bin < BINS; bin++) wider[bin >> 1] += this.seconds[bin];
    this.seconds = wider;
    this.width *= 2;
  }
}
