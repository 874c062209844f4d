// Draws the plot of a timeline: lanes, work, down times and marks. It knows pixels and colours, and no events.
//
// Order, from back to front: lane stripes, grid, raster rows (closures, then work), details where few spans are in
// view, down times, notes, marks. So a fault is never covered by anything. What the pointer is on has a canvas of its own above the
// plot: a pointer that moves draws no lane again.

import type { Fan } from "./fan.ts";
import type { Hit } from "./hit_test.ts";
import { drawChosenMark, drawMarks } from "./mark_painter.ts";
import { Rasteriser } from "./rasteriser.ts";
import { drawDetails, drawDown, drawOpen } from "./span_details.ts";
import type { Colors } from "./theme.ts";
import { axis, type View } from "./time_scale.ts";
import type { ChosenRow } from "./timeline_source.ts";
import type { TraceData } from "./trace_data.ts";

const FEW = 400; // spans of a lane in view, up to which each gets its edge and its name

/** What a lane does since a moment, up to the present: the log will hold it when it has ended. */
export interface OpenSpan {
  readonly lane: number;
  readonly start: number; // seconds
  readonly end: number;
  readonly color: string;
  readonly isDown: boolean;
}

export interface Scene {
  readonly data: TraceData;
  readonly version: number; // of the data
  readonly view: View;
  readonly colors: Colors;
  readonly width: number; // CSS pixels
  readonly laneHeight: number; // CSS pixels
  readonly top: number; // CSS pixels that are scrolled away
  readonly height: number; // CSS pixels that are seen
  readonly ratio: number; // device pixels per CSS pixel
  readonly lane: number; // the chosen lane
  readonly down: Uint32Array; // rows of the down times
  readonly open: readonly OpenSpan[];
  readonly hit: Hit | null; // what the pointer or the keyboard is on
  readonly chosen: readonly ChosenRow[]; // rows that were chosen, here or from Python
  readonly fan: Fan | null; // where that is one of several marks that stand together
}

/** The height of a lane, in CSS pixels: fewer lanes get more room. */
export function laneHeight(lanes: number): number {
  return lanes <= 14 ? 34 : lanes <= 32 ? 24 : lanes <= 128 ? 14 : 9;
}

/** Where the closures' band and the work are in a lane: [top, height] of each, as fractions of the lane's height. */
export const BAND: readonly [number, number] = [0.06, 0.88];
export const WORK: readonly [number, number] = [0.42, 0.46];

export class TimelinePainter {
  private rasteriser: Rasteriser | null = null;
  private drawn: { readonly data: TraceData; readonly key: string; readonly seen: Uint32Array } | null = null;
  private readonly sheet = document.createElement("canvas");

  draw(canvas: HTMLCanvasElement, scene: Scene): void {
    const { width, height, top, laneHeight, ratio } = scene;
    resize(canvas, Math.round(width * ratio), Math.round(height * ratio));
    const context = canvas.getContext("2d");
    if (!context || canvas.width === 0) return;
    context.setTransform(ratio, 0, 0, ratio, 0, -Math.round(top * ratio));
    const [first, stop] = lanesSeen(scene);
    this.stripes(context, scene);
    const seen = this.raster(context, scene);
    for (let lane = first; lane < stop; lane++) {
      if (seen[lane] > 0 && seen[lane] <= FEW && laneHeight >= 14) drawDetails(context, scene, lane);
    }
    drawOpen(context, scene);
    drawDown(context, scene);
    for (let lane = first; lane < stop; lane++) drawMarks(context, scene, lane);
  }

  /** Draws what the pointer or the keyboard is on, over the plot. */
  drawOver(canvas: HTMLCanvasElement, scene: Scene): void {
    const { width, height, top, ratio } = scene;
    resize(canvas, Math.round(width * ratio), Math.round(height * ratio));
    const context = canvas.getContext("2d");
    if (!context || canvas.width === 0) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, -Math.round(top * ratio));
    for (const row of scene.chosen) drawChosen(context, scene, row);
    drawHit(context, scene);
  }

  private stripes(context: CanvasRenderingContext2D, scene: Scene): void {
    const { width, height, top, laneHeight, colors, view } = scene;
    const [first, stop] = lanesSeen(scene);
    context.fillStyle = colors.background;
    context.fillRect(0, top, width, height);
    for (let lane = first; lane < stop; lane++) {
      context.fillStyle = lane === scene.lane ? colors.chosen : colors.lane;
      context.fillRect(0, lane * laneHeight + 1, width, laneHeight - 2);
    }
    context.fillStyle = colors.grid;
    const scale = width / (view.end - view.start);
    for (const tick of axis(view, width).ticks) {
      context.fillRect(Math.round((tick.time - view.start) * scale), top, 1, height);
    }
  }

  /** Fills one row of pixels for closures and one for work per lane, and scales each up to its height. */
  private raster(context: CanvasRenderingContext2D, scene: Scene): Uint32Array {
    const { laneHeight, ratio } = scene;
    const [first, stop] = lanesSeen(scene);
    const width = Math.round(scene.width * ratio);
    const seen = this.rasterLanes(scene, width);
    context.imageSmoothingEnabled = false;
    for (let lane = first; lane < stop; lane++) {
      if (seen[lane] === 0) continue;
      [BAND, WORK].forEach(([top, height], row) => {
        const y = lane * laneHeight + top * laneHeight;
        context.globalAlpha = row === 0 ? 0.38 : 1;
        context.drawImage(this.sheet, 0, (lane - first) * 2 + row, width, 1, 0, y, scene.width, height * laneHeight);
      });
    }
    context.globalAlpha = 1;
    return seen;
  }

  /** The rows of pixels of the lanes that are seen; those of the last frame where nothing but the pointer has moved. */
  private rasterLanes(scene: Scene, width: number): Uint32Array {
    const { data, version, view } = scene;
    const [first, stop] = lanesSeen(scene);
    const lanes = stop - first;
    const key = `${version} ${view.start} ${view.end} ${width} ${first} ${stop}`;
    if (this.drawn?.data === data && this.drawn.key === key) return this.drawn.seen;
    const seen = new Uint32Array(data.header.lanes.length);
    const sheet = this.sheet.getContext("2d");
    if (!sheet || lanes <= 0) return seen;
    const { kinds } = data.header;
    if (this.rasteriser?.width !== width || this.rasteriser.kinds !== kinds.length) this.rasteriser = new Rasteriser(kinds, width);
    resize(this.sheet, width, lanes * 2);
    const image = sheet.createImageData(width, lanes * 2);
    const pixels = new Uint32Array(image.data.buffer);
    for (let place = 0; place < lanes; place++) {
      const outer = pixels.subarray(place * 2 * width, (place * 2 + 1) * width);
      const inner = pixels.subarray((place * 2 + 1) * width, (place * 2 + 2) * width);
      seen[first + place] = this.rasteriser.lane(data.spans, first + place, view, outer, inner);
    }
    sheet.putImageData(image, 0, 0);
    this.drawn = { data, key, seen };
    return seen;
  }
}

/** The lanes that are not scrolled away: the first, and the one after the last. */
function lanesSeen({ data, top, height, laneHeight }: Scene): readonly [number, number] {
  const first = Math.max(0, Math.floor(top / laneHeight));
  return [first, Math.min(data.header.lanes.length, Math.ceil((top + height) / laneHeight))];
}

function resize(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

/** What marks the span or the event that the card speaks of. */
function drawHit(context: CanvasRenderingContext2D, scene: Scene): void {
  const { hit, colors } = scene;
  if (hit?.sort === "instants") drawChosenMark(context, scene, hit.lane, hit.row, scene.fan);
  else if (hit) frameSpan(context, scene, hit.lane, hit.row, colors.text, 1.5);
}

/** What marks a row that was chosen. */
function drawChosen(context: CanvasRenderingContext2D, scene: Scene, { sort, row }: ChosenRow): void {
  const { spans, instants } = scene.data;
  if (sort === "instants") drawChosenMark(context, scene, instants.laneOf(row), row, null);
  else {
    const lane = spans.laneOf(row);
    frameSpan(context, scene, lane, row, scene.colors.background, 5); // seen on spans of any colour
    frameSpan(context, scene, lane, row, scene.colors.text, 2);
  }
}

function frameSpan(context: CanvasRenderingContext2D, { data, view, width, laneHeight }: Scene, lane: number, row: number, color: string, line: number): void {
  const scale = width / (view.end - view.start);
  const [top, height] = data.header.kinds[data.spans.kind[row]].level === 0 ? BAND : WORK;
  const left = Math.max((data.spans.start[row] - view.start) * scale, -4);
  const right = Math.min((data.spans.start[row] + data.spans.duration[row] - view.start) * scale, width + 4);
  const y = lane * laneHeight + top * laneHeight;
  if (right < 0 || left > width) return;
  context.strokeStyle = color;
  context.lineWidth = line;
  context.strokeRect(left - 0.5, y - 0.5, Math.max(right - left, 2) + 1, height * laneHeight + 1);
}
