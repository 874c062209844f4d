// The shapes of marks, so that no event is told by its colour alone. They come from Python with the trace
// (simdist/trace/glyphs.py holds the only table), as path data in a box from -7 to 7 that serves a canvas and SVG alike.

import { shape } from "./dom.ts";

export interface Glyph {
  readonly body: string; // filled with the category's colour
  readonly sign: string; // stroked in white on it
  readonly color: string;
}

const SIGN_WIDTH = 1.8;
const paths = new Map<string, Path2D>();

function path(data: string): Path2D {
  const known = paths.get(data) ?? new Path2D(data);
  paths.set(data, known);
  return known;
}

/** Draws a mark on a canvas; `halo` is the colour of the thin line that separates it from what is under it. */
export function drawGlyph(context: CanvasRenderingContext2D, glyph: Glyph, halo: string, x: number, y: number, scale: number): void {
  const { body, sign, color } = glyph;
  context.save();
  context.translate(x, y);
  context.scale(scale, scale);
  context.lineJoin = context.lineCap = "round";
  context.strokeStyle = halo;
  context.lineWidth = 2.5;
  context.stroke(path(body));
  context.fillStyle = color;
  context.fill(path(body));
  context.strokeStyle = "#ffffff";
  context.lineWidth = SIGN_WIDTH;
  context.stroke(path(sign));
  context.restore();
}

/** The same mark as an element. */
export function glyphElement({ body, sign, color }: Glyph): SVGElement {
  const line = { fill: "none", stroke: "#ffffff", "stroke-width": SIGN_WIDTH, "stroke-linecap": "round", "stroke-linejoin": "round" };
  const parts = [shape("path", { d: body, fill: color }), shape("path", { d: sign, ...line })];
  return shape("svg", { viewBox: "-8 -8 16 16", width: 15, height: 15, "aria-hidden": "true" }, ...parts);
}
