// A lane in two rows of pixels, from one level of its pyramid.
//
// A pixel has between one bin and two, and parts of others at its borders. A bin that is busy counts for each of its pixels by its part;
// what is rare counts for the one that the bin is in, so that it is not seen twice.

import type { Level, Shown } from "./pyramid_level.ts";
import type { View } from "./time_scale.ts";

const SLIVER = 1e-6; // of a bin, that is rounding
const SHARED = 0.05; // of a bin, from which its pixels share what it holds

/** Gives the pixel of a category that covers some of it. */
export type Ink = (kind: number, covered: number) => number;

/** Fills a row of pixels from one row of bins. */
export function fillRow(row: Uint32Array, shown: Shown, { width: binWidth, bins }: Level, view: View, levelOf: Uint8Array, ink: Ink): void {
  const { seconds, most, kind } = shown;
  const binsAPixel = (view.end - view.start) / row.length / binWidth;
  const share = SHARED * binWidth;
  const perPixel = 1 / (binsAPixel * binWidth);
  let to = view.start / binWidth;
  for (let x = 0; x < row.length; x++) {
    const from = to;
    to = (view.start / binWidth) + (x + 1) * binsAPixel;
    let covered = 0;
    let best = -1;
    let longest = 0;
    for (let bin = from > 0 ? from | 0 : 0; bin < to && bin < bins; bin++) {
      const inBin = seconds[bin];
      if (inBin === 0) continue;
      let part = bin + 0.5 >= from && bin + 0.5 < to ? 1 : 0;
      if (inBin > share) part = (bin + 1 < to ? bin + 1 : to) - (bin > from ? bin : from);
      if (part < SLIVER) continue;
      covered += inBin * part;
      const length = most[bin] * part;
      const better = best < 0 ? 1 : levelOf[kind[bin]] - levelOf[best] || length - longest;
      if (better <= 0) continue;
      best = kind[bin];
      longest = length;
    }
    row[x] = best < 0 ? 0 : ink(best, covered * perPixel);
  }
}
