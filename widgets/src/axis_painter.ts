// The two strips above the lanes: the axis with its ticks, and the overview of the whole run with the window in it.

import { resizeFor } from "./canvas.ts";
import type { Colors } from "./theme.ts";
import { axis, type View } from "./time_scale.ts";
import type { TraceData } from "./trace_data.ts";

/** Draws the ticks of the view; returns what their labels are relative to ("" for the start of the run). */
export function drawAxis(canvas: HTMLCanvasElement, view: View, colors: Colors, ratio: number): string {
  const { context, width, height } = resizeFor(canvas, ratio);
  const { ticks, base } = axis(view, width);
  context.clearRect(0, 0, width, height);
  context.font = `11px ${colors.font}`;
  context.textBaseline = "middle";
  for (const tick of ticks) {
    const x = Math.round(((tick.time - view.start) / (view.end - view.start)) * width);
    context.fillStyle = colors.line;
    context.fillRect(x, height - 6, 1, 6);
    context.fillStyle = colors.softText;
    const half = context.measureText(tick.label).width / 2;
    context.fillText(tick.label, Math.min(Math.max(x - half, 0), width - 2 * half), height / 2 - 2);
  }
  return base;
}

/** Draws the run from end to end: how busy it was, every serious event, and where the view is. */
export function drawOverview(
  canvas: HTMLCanvasElement,
  data: TraceData,
  events: Uint32Array,
  bounds: View,
  view: View,
  colors: Colors,
  ratio: number,
): void {
  const { context, width, height } = resizeFor(canvas, ratio);
  const place = (time: number): number => ((time - bounds.start) / (bounds.end - bounds.start)) * width;
  context.clearRect(0, 0, width, height);
  context.fillStyle = colors.lane;
  context.fillRect(0, 2, width, height - 4);
  const [left, right] = [place(view.start), place(view.end)];
  context.fillStyle = colors.chosen;
  context.fillRect(left, 2, Math.max(right - left, 3), height - 4);
  const levels = [1, 2, 3]; // the most serious last, so that they are on top
  for (const level of levels) {
    for (const row of events) {
      const kind = data.header.marks[data.instants.kind[row]];
      if (kind.level !== level) continue;
      context.fillStyle = kind.color;
      const top = level === 3 ? 1 : 4;
      context.fillRect(Math.round(place(data.instants.start[row])) - 1, top, 2, height - 2 * top);
    }
  }
  context.strokeStyle = colors.focus;
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, 1.5, Math.max(right - left - 1, 2), height - 3);
}
