// One lane in two rows of pixels, however many spans it has: an outer row (closures) and an inner row (work).
//
// For every pixel column the spans' coverage is summed by category. A span inside one pixel adds its fraction; a longer
// one adds its two ends, and its middle as +1 and -1 in a difference that is summed at the end. So the cost is
// (spans in view) + (categories x width), whatever overlaps. The pixel then shows the category of the greatest level,
// among equals the one that covers most; how much of the pixel is busy becomes its opacity, never less than FAINTEST,
// so that a rare short span is seen among idle time.

import { GROUP, MOST_KINDS } from "./groups.ts";
import type { Table } from "./table.ts";
import type { View } from "./time_scale.ts";
import type { Kind } from "./trace_data.ts";

const FAINTEST = 0.4;
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

  constructor(kinds: readonly Kind[], width: number) {
    this.width = width;
    this.kinds = kinds.length;
    this.cover = new Float32Array(kinds.length * width);
    this.middle = new Float32Array(kinds.length * (width + 1));
    this.colors = Uint32Array.from(kinds, (kind) => packColor(kind.color));
    this.levels = Uint8Array.from(kinds, (kind) => kind.level);
  }

  /** Draws one lane into `outer` and `inner`, each of `width` pixels; returns the number of spans in view. */
  lane(table: Table, lane: number, view: View, outer: Uint32Array, inner: Uint32Array): number {
    this.cover.fill(0);
    this.middle.fill(0);
    let seen = 0;
    table.stretches(lane, view.start, view.end, (from, to) => {
      seen += this.addRows(table, from, to, view);
    });
    if (seen === 0) {
      outer.fill(0);
      inner.fill(0);
    } else {
      this.paint(outer, inner);
    }
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
      if (groups.seconds[at] > 0) this.cover[k * this.width + pixel] += groups.seconds[at] * scale + LEAST_COVER;
    }
    return true;
  }

  private paint(outer: Uint32Array, inner: Uint32Array): void {
    const { cover, middle, colors, levels, width } = this;
    const kinds = levels.length;
    const running = new Float32Array(kinds);
    for (let x = 0; x < width; x++) {
      let band = 0;
      let bandColor = 0;
      let busy = 0;
      let best = -1;
      let bestCover = 0;
      for (let k = 0; k < kinds; k++) {
        running[k] += middle[k * (width + 1) + x];
        const covered = cover[k * width + x] + running[k];
        if (covered <= 0) continue;
        if (levels[k] === 0) {
          if (covered > band) bandColor = colors[k];
          band += covered;
          continue;
        }
        busy += covered;
        if (best < 0 || levels[k] > levels[best] || (levels[k] === levels[best] && covered > bestCover)) {
          best = k;
          bestCover = covered;
        }
      }
      outer[x] = band > 0 ? pixel(bandColor, band) : 0;
      inner[x] = best >= 0 ? pixel(colors[best], busy) : 0;
    }
  }
}

function pixel(color: number, covered: number): number {
  const opacity = covered >= 0.999 ? 1 : FAINTEST + (1 - FAINTEST) * covered;
  return (((opacity * 255) << 24) | color) >>> 0;
}
