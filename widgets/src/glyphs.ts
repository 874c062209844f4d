// The shapes of marks, so that no event is told by its colour alone. Path data in a box from -7 to 7, usable both on
// a canvas and in SVG: `body` is filled with the category's colour, `sign` is stroked in white on it.

export interface Glyph {
  readonly body: string;
  readonly sign: string;
}

const CIRCLE = "M7 0A7 7 0 1 1-7 0A7 7 0 1 1 7 0Z";

const GLYPHS: Readonly<Record<string, Glyph>> = {
  crash: { body: "M-2.9-7H2.9L7-2.9V2.9L2.9 7H-2.9L-7 2.9V-2.9Z", sign: "M-3-3L3 3M3-3L-3 3" },
  fault: { body: "M0-7.8L7.8 0L0 7.8L-7.8 0Z", sign: "M0-3.6V.8M0 3.4V3.6" },
  error: { body: "M0-7.5L7.5 6H-7.5Z", sign: "M0-2.8V1.4M0 3.6V3.8" },
  detect: { body: CIRCLE, sign: "M3 0A3 3 0 1 1-3 0A3 3 0 1 1 3 0M0 0V.1" },
  retry: { body: CIRCLE, sign: "M2.9-1.6A3.3 3.3 0 1 0 3.3.6M3.4-4V-1.4H.8" },
  restart: { body: CIRCLE, sign: "M0 3.8V-3.4M-3-.6L0-3.6L3-.6" },
  cancel: { body: CIRCLE, sign: "M-3.4 0H3.4" },
  place: { body: "M-1-5H1V5H-1Z", sign: "" },
  observe: { body: "M0-3.4L3 0L0 3.4L-3 0Z", sign: "" },
};
const OTHER: Glyph = { body: CIRCLE, sign: "M0 0V.1" };

/** The shape of a category of instants. */
export function glyphOf(category: string): Glyph {
  return GLYPHS[category] ?? OTHER;
}

const paths = new Map<string, Path2D>();

function path(data: string): Path2D {
  const known = paths.get(data) ?? new Path2D(data);
  paths.set(data, known);
  return known;
}

/** Draws a mark on a canvas; `halo` is the colour of the thin line that separates it from what is under it. */
export function drawGlyph(
  context: CanvasRenderingContext2D,
  category: string,
  color: string,
  halo: string,
  x: number,
  y: number,
  scale: number,
): void {
  const { body, sign } = glyphOf(category);
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
  context.lineWidth = 1.8;
  context.stroke(path(sign));
  context.restore();
}
