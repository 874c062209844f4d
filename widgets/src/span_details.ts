// What is added to the raster where there is room: the edge and the name of each span, and down times as hatching.

import { shorten } from "./labels.ts";
import { inkOn } from "./theme.ts";
import { BAND, WORK, type OpenSpan, type Scene } from "./timeline_painter.ts";
import { DOWN_LEVEL } from "./trace_data.ts";

const CHARACTER = 5.6; // pixels, about

const OPEN_ALPHA = 0.4;

/** The left edge of every span that is wide enough to have one, and its name where that fits. */
export function drawDetails(context: CanvasRenderingContext2D, scene: Scene, lane: number): void {
  const { data, view, width, laneHeight, colors } = scene;
  const { spans, header } = data;
  const scale = width / (view.end - view.start);
  context.textBaseline = "middle";
  spans.stretches(lane, view.start, view.end, (from, to) => {
    for (let row = from; row < to; row++) {
      const left = (spans.start[row] - view.start) * scale;
      const right = left + spans.duration[row] * scale;
      const kind = header.kinds[spans.kind[row]];
      if (right - left < 3 || right < 0 || kind.level >= DOWN_LEVEL) continue;
      const [top, height] = kind.level === 0 ? BAND : WORK;
      const y = (lane + top) * laneHeight;
      context.fillStyle = colors.background;
      context.fillRect(left - 0.5, y, 1, height * laneHeight);
      const [x0, x1] = [Math.max(left, 0) + 3, Math.min(right, width) - 2];
      const text = laneHeight < 24 ? "" : shorten(data.names[spans.name[row]], Math.floor((x1 - x0) / CHARACTER));
      if (!text) continue;
      const outer = kind.level === 0;
      context.font = `${outer ? 10 : 10.5}px ${colors.font}`;
      context.fillStyle = outer ? colors.text : inkOn(kind.color);
      const middle = outer ? (lane + (BAND[0] + WORK[0]) / 2) * laneHeight + 0.5 : y + (height * laneHeight) / 2 + 0.5;
      context.fillText(text, x0, middle, x1 - x0);
    }
  });
}

/** Down times: the whole height of the lane, hatched, so that they differ from work without colour too. */
export function drawDown(context: CanvasRenderingContext2D, scene: Scene): void {
  const { spans, header } = scene.data;
  for (const row of scene.down) {
    const { color } = header.kinds[spans.kind[row]];
    drawDownTime(context, scene, { lane: spans.laneOf(row), start: spans.start[row], end: spans.start[row] + spans.duration[row], color });
  }
  for (const open of scene.open) if (open.isDown) drawDownTime(context, scene, open);
}

/** Work that goes on: paler than work that is done, and open towards the present. */
export function drawOpen(context: CanvasRenderingContext2D, { open, view, width, laneHeight }: Scene): void {
  const scale = width / (view.end - view.start);
  for (const { lane, start, end, color, isDown } of open) {
    const left = Math.max((start - view.start) * scale, 0);
    const right = Math.min((end - view.start) * scale, width);
    if (isDown || right <= left) continue;
    context.globalAlpha = OPEN_ALPHA;
    context.fillStyle = color;
    context.fillRect(left, (lane + WORK[0]) * laneHeight, right - left, WORK[1] * laneHeight);
    context.globalAlpha = 1;
    context.fillRect(left, (lane + WORK[0]) * laneHeight, 1, WORK[1] * laneHeight);
  }
}

function drawDownTime(context: CanvasRenderingContext2D, { view, width, laneHeight, colors }: Scene, { lane, start, end, color }: Omit<OpenSpan, "isDown">): void {
  const scale = width / (view.end - view.start);
  const left = Math.max((start - view.start) * scale, -9);
  const right = Math.min((end - view.start) * scale, width + 9);
  if (right < 0 || left > width) return;
  const box = [left, lane * laneHeight + 1, Math.max(right - left, 1), laneHeight - 2] as const;
  context.fillStyle = colors.background;
  context.fillRect(...box);
  hatch(context, color, box);
}

function hatch(
  context: CanvasRenderingContext2D,
  color: string,
  [x, y, width, height]: readonly [number, number, number, number],
): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.fillStyle = context.strokeStyle = color;
  context.globalAlpha = 0.16;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 0.75;
  context.lineWidth = 1.4;
  context.beginPath();
  for (let start = x - height; start < x + width; start += 7) {
    context.moveTo(start, y + height);
    context.lineTo(start + height, y);
  }
  context.stroke();
  context.restore();
}
