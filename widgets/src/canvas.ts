// Canvases that follow their size on the page.

export interface Sized {
  readonly context: CanvasRenderingContext2D;
  readonly width: number; // CSS pixels
  readonly height: number; // CSS pixels
}

/** Gives a canvas the pixels that its place on the page has, and a context that draws in CSS pixels. */
export function resizeFor(canvas: HTMLCanvasElement, ratio: number): Sized {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw on a canvas");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}
