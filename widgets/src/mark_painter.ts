// Draws the marks of a timeline: one glyph for each group, its name where there is room, and the fan of an unfolded group.

import { FAN_HEIGHT, FAN_STEP, fanY, memberX, type Fan } from "./fan.ts";
import { drawGlyph } from "./glyphs.ts";
import { layOutMarks, MARK_RADIUS, NOTE_LEVEL } from "./marks.ts";
import type { Scene } from "./timeline_painter.ts";
import type { MarkKind, TraceData } from "./trace_data.ts";

const LEAST_LANE = 20; // pixels, for names
const NOTE_DROP = 0.34; // of a lane, that notes lie below its middle

/** Draws the marks of one lane. */
export function drawMarks(context: CanvasRenderingContext2D, scene: Scene, lane: number): void {
  const { data, view, width, laneHeight, colors } = scene;
  const y = (lane + 0.5) * laneHeight;
  const scale = Math.min(1, (laneHeight - 2) / (2 * MARK_RADIUS));
  const marks = layOutMarks(data, lane, view, width);
  for (const mark of marks) {
    const kind = kindOf(data, mark.row);
    const note = kind.level === NOTE_LEVEL;
    if (!note) {
      context.fillStyle = kind.color;
      context.fillRect(Math.round(mark.x) - 0.75, lane * laneHeight + 1, 1.5, laneHeight - 2);
    }
    drawGlyph(context, kind, colors.background, mark.x, note ? y + laneHeight * NOTE_DROP : y, scale);
  }
  if (laneHeight < LEAST_LANE) return;
  marks.forEach((mark, index) => {
    const { name, level } = kindOf(data, mark.row);
    if (level === NOTE_LEVEL) return;
    const text = mark.rows.length > 1 ? `${name} +${mark.rows.length - 1}` : name;
    drawTag(context, scene, text, mark.x + MARK_RADIUS + 2, y, marks[index + 1]?.x ?? width + 99);
  });
}

/** The ring around the mark that the card speaks of; of a group, all its instants side by side. */
export function drawChosenMark(context: CanvasRenderingContext2D, scene: Scene, lane: number, row: number, fan: Fan | null): void {
  const { data, view, width, laneHeight, colors } = scene;
  const y = (lane + 0.5) * laneHeight;
  if (!fan) {
    ring(context, ((data.instants.start[row] - view.start) / (view.end - view.start)) * width, y, colors.text);
    return;
  }
  const middle = fanY(y, data.header.lanes.length * laneHeight);
  context.fillStyle = colors.background;
  context.strokeStyle = colors.text;
  context.lineWidth = 1;
  context.beginPath();
  context.roundRect(fan.left - 2.5, Math.round(middle - FAN_HEIGHT / 2) - 0.5, fan.rows.length * FAN_STEP + 5, FAN_HEIGHT + 1, 5);
  context.fill();
  context.stroke();
  fan.rows.forEach((member, index) => {
    const x = memberX(fan, index);
    drawGlyph(context, kindOf(data, member), colors.background, x, middle, 1);
    if (member === row) ring(context, x, middle, colors.text);
  });
}

function ring(context: CanvasRenderingContext2D, x: number, y: number, color: string): void {
  context.strokeStyle = color;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(x, y, MARK_RADIUS + 2, 0, 2 * Math.PI);
  context.stroke();
}

/** A word on a piece of background, unless it would reach the next mark or leave the plot. */
function drawTag(context: CanvasRenderingContext2D, scene: Scene, text: string, x: number, y: number, limit: number): void {
  const { colors, width } = scene;
  context.font = `600 10.5px ${colors.font}`;
  const length = context.measureText(text).width + 6;
  if (x + length > Math.min(limit - MARK_RADIUS - 1, width)) return;
  context.fillStyle = colors.background;
  context.globalAlpha = colors.forced ? 1 : 0.88;
  context.fillRect(x, y - 7, length, 14);
  context.globalAlpha = 1;
  context.fillStyle = colors.text;
  context.textBaseline = "middle";
  context.fillText(text, x + 3, y + 0.5);
}

function kindOf(data: TraceData, row: number): MarkKind {
  return data.header.marks[data.instants.kind[row]];
}
