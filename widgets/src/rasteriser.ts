// One lane in two rows of pixels, however many spans it has: an outer row (closures) and an inner row (work).
//
// For every pixel column the spans' coverage is summed by category. A span inside one pixel adds its fraction; a longer
// one adds its two ends, and its middle as +1 and -1 in a difference that is summed at the end. So the cost is
// (spans in view) + (categories x width), whatever overlaps; where there are more spans than pixels, they are taken from the sums of a
// pyramid. The pixel then shows the category of the greatest level,
// among equals the one that covers most; how much of the pixel is busy becomes its opacity, never less than FAINTEST,
// so that a rare short span is seen among idle time.

import { GROUP, MOST_KINDS } from "./groups.ts";
import { fillRow } from "./lane_sums.ts";
import { Shown } from "./pyramid_level.ts";
import type { Table } from "./table.ts";
import type { View } from "./time_scale.ts";
import type { Kind } from "./trace_data.ts";

const FAINTEST = 0.4;
const DENSE = 2; // spans for each pixel, from which sums stand for them
const LEAST_COVER = 1e-6; // what a span without duration adds

/** Colours as the bytes of a pixel, little end first: red, green, blue; the opacity is added per pixel. */
export function packColor(hex: string): number {
  const value = Number.parseInt(hex.slice(1), 16);
  return ((value & 0xff) << 16) | (value & 0xff00) | (value >>> 16);
}

export class Rasteriser {
  readonly width: number;
  readonly kinds: number;
  private readonly cover: Float32Array; // kinds x width
  private readonly middle: Float32Array; // kinds x (width + 1), a difference
  private readonly colors: Uint32Array;
  private readonly levels: Uint8Array;
  private readonly outer: Shown; // of each pixel, in pixels
  private readonly inner: Shown;
  private readonly used: number[] = []; // categories of the lane that is drawn
  private readonly isUsed: Uint8Array;
  private readonly ink = (kind: number, covered: number): number => pixel(this.colors[kind], covered);

  constructor(kinds: readonly Kind[], width: number) {
    this.width = width;
    this.kinds = kinds.length;
    this.cover = new Float32Array(kinds.length * width);
    this.middle = new Float32Array(kinds.length * (width + 1));
    this.colors = Uint32Array.from(kinds, (kind) => packColor(kind.color));
    [this.outer, this.inner] = [new Shown(width), new Shown(width)];
    this.isUsed = new Uint8Array(kinds.length);
    this.levels = Uint8Array.from(kinds, (kind) => kind.level);
  }

  /** Draws one lane into `outer` and `inner`, each of `width` pixels; returns the number of spans in view. */
  lane(table: Table, lane: number, view: View, outer: Uint32Array, inner: Uint32Array): number {
    let rows = 0;
    table.stretches(lane, view.start, view.end, (from, to) => void (rows += to - from));
    if (rows > DENSE * this.width && this.paintSums(table, lane, view, outer, inner)) return rows;
    this.clear();
    const seen = this.addSpans(table, lane, view);
    if (seen === 0) {
      outer.fill(0);
      inner.fill(0);
    } else {
      this.paint(outer, inner);
    }
    return seen;
  }

  private clear(): void {
    for (const k of this.used) {
      this.cover.fill(0, k * this.width, (k + 1) * this.width);
      this.middle.fill(0, k * (this.width + 1), (k + 1) * (this.width + 1));
      this.isUsed[k] = 0;
    }
    this.used.length = 0;
  }

  private use(kind: number): void {
    this.isUsed[kind] = 1;
    this.used.push(kind);
  }

  /** Draws a lane from its sums; false where they are not fine enough. */
  private paintSums(table: Table, lane: number, view: View, outer: Uint32Array, inner: Uint32Array): boolean {
    const level = table.pyramid(lane).level((view.end - view.start) / this.width, this.levels);
    if (!level) return false;
    fillRow(outer, level.outer, level, view, this.levels, this.ink);
    fillRow(inner, level.inner, level, view, this.levels, this.ink);
    return true;
  }

  private addSpans(table: Table, lane: number, view: View): number {
    let seen = 0;
    table.stretches(lane, view.start, view.end, (from, to) => {
      seen += this.addRows(table, from, to, view);
    });
    return seen;
  }

  private addRows(table: Table, from: number, to: number, view: View): number {
    const { kind, start, duration } = table;
    const { cover, middle, width } = this;
    const scale = width / (view.end - view.start);
    const origin = view.start;
    let seen = 0;
    for (let row = from; row < to; row++) {
      if ((row & (GROUP - 1)) === 0 && row + GROUP <= to && this.addGroup(table, row, view)) {
        row += GROUP - 1;
        seen += GROUP;
        continue;
      }
      const left = (start[row] - origin) * scale;
      const right = left + duration[row] * scale;
      if (right < 0 || left >= width) continue;
      seen += 1;
      const x0 = left > 0 ? left : 0;
      const x1 = right < width ? right : width;
      const p0 = x0 | 0;
      const p1 = x1 | 0;
      const k = kind[row];
      if (this.isUsed[k] === 0) this.use(k);
      const base = k * width;
      if (p0 === p1) {
        cover[base + p0] += x1 - x0 + LEAST_COVER;
        continue;
      }
      cover[base + p0] += p0 + 1 - x0;
      if (p1 < width) cover[base + p1] += x1 - p1;
      middle[base + k + p0 + 1] += 1;
      middle[base + k + p1] -= 1;
    }
    return seen;
  }

  /** Adds a group of rows by its sums; false where it is wider than a pixel, or not wholly in view. */
  private addGroup({ groups, start, kind, duration }: Table, first: number, view: View): boolean {
    const scale = this.width / (view.end - view.start);
    const left = (start[first] - view.start) * scale;
    if (left < 0 || (start[first + GROUP - 1] - view.start) * scale > left + 1) return false;
    const group = first / GROUP;
    if (!groups.prepare(group, { kind, start, duration })) return false;
    const right = (groups.end[group] - view.start) * scale;
    if (right > left + 1 || right >= this.width) return false;
    const pixel = ((left + right) / 2) | 0;
    for (let k = 0, at = group * MOST_KINDS; k < this.kinds && k < MOST_KINDS; k++, at++) {
      if (groups.seconds[at] <= 0) continue;
      if (this.isUsed[k] === 0) this.use(k);
      this.cover[k * this.width + pixel] += groups.seconds[at] * scale + LEAST_COVER;
    }
    return true;
  }

  /** Colours both rows from what covers them: one category after the other, since each has its numbers side by side. */
  private paint(outer: Uint32Array, inner: Uint32Array): void {
    const { cover, middle, levels, width } = this;
    for (const row of [this.outer, this.inner]) row.clear(0, width);
    for (const k of this.used.sort((a, b) => a - b)) {
      const row = levels[k] === 0 ? this.outer : this.inner;
      const [at, change] = [k * width, k * (width + 1)];
      let running = 0;
      for (let x = 0; x < width; x++) {
        running += middle[change + x];
        const covered = cover[at + x] + running;
        if (covered > 0) row.add(x, k, covered, levels);
      }
    }
    this.color(this.outer, outer);
    this.color(this.inner, inner);
  }

  private color({ seconds, kind }: Shown, row: Uint32Array): void {
    for (let x = 0; x < row.length; x++) row[x] = seconds[x] > 0 ? this.ink(kind[x], seconds[x]) : 0;
  }
}

function pixel(color: number, covered: number): number {
  const opacity = covered >= 0.999 ? 1 : FAINTEST + (1 - FAINTEST) * covered;
  return (((opacity * 255) << 24) | color) >>> 0;
}
