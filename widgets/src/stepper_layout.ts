// Where the chunks of a collective go: ranks are rows, chunks are columns, with room for arrows beside each column.
//
// Arrows to greater ranks run right of their column and arrows to smaller ones left of it, each in the lane that Python
// gave it. The rooms are the same in every step, so that nothing but the contents changes from step to step.

import type { StepperHeader, Transfer } from "./stepper_data.ts";

export interface Layout {
  readonly width: number; // pixels, as all of these
  readonly height: number;
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly columnPitch: number;
  readonly rowPitch: number;
  readonly gutters: readonly [number, number]; // left and right of a column
  readonly squeeze: number; // of the arrows' rooms, 1 where there is room enough
  readonly words: boolean; // whether chunks are large enough for words
}

export interface Arrow {
  readonly chunk: number;
  readonly transfer: Transfer;
  readonly points: readonly [number, number, number, number, number, number, number, number]; // a cubic curve's x and y
  readonly side: 1 | -1; // right or left of its column
}

export const LABEL_WIDTH = 64;
export const HEAD_HEIGHT = 24;
const LANE = 9;
const FIRST_LANE = 13;
const EDGE = 6;
const MARGIN = 14; // what travels beside the last column is wider than its arrow
const MOST_WIDTH = 116;
const LEAST_WIDTH = 9;

/** The sizes for a place that is `room` wide; a matrix that cannot get smaller is wider than that. */
export function layOut(header: StepperHeader, room: number): Layout {
  const { num_ranks, num_chunks } = header;
  const wanted = roomForArrows(header);
  const pitch = (room - LABEL_WIDTH - MARGIN) / num_chunks;
  const squeeze = Math.min(1, (pitch * 0.5) / (wanted[0] + wanted[1]));
  const gutters: [number, number] = [wanted[0] * squeeze, wanted[1] * squeeze];
  const cellWidth = Math.round(Math.min(Math.max(pitch - gutters[0] - gutters[1], LEAST_WIDTH), MOST_WIDTH));
  const cellHeight = num_ranks <= 6 ? 42 : num_ranks <= 10 ? 36 : num_ranks <= 16 ? 29 : Math.max(8, Math.floor(460 / num_ranks));
  const rowPitch = cellHeight + Math.max(3, Math.round(cellHeight * 0.33));
  const columnPitch = cellWidth + gutters[0] + gutters[1];
  return {
    width: LABEL_WIDTH + columnPitch * num_chunks + MARGIN,
    height: HEAD_HEIGHT + rowPitch * num_ranks,
    cellWidth,
    cellHeight,
    columnPitch,
    rowPitch,
    gutters,
    squeeze,
    words: cellWidth >= 42 && cellHeight >= 28,
  };
}

export function leftOf(layout: Layout, chunk: number): number {
  return LABEL_WIDTH + chunk * layout.columnPitch + layout.gutters[0];
}

export function topOf(layout: Layout, rank: number): number {
  return HEAD_HEIGHT + rank * layout.rowPitch + (layout.rowPitch - layout.cellHeight) / 2;
}

/** The rank and the chunk at a place; chunk -1 beside the columns, null outside of the rows. */
export function placeAt(layout: Layout, header: StepperHeader, x: number, y: number): { rank: number; chunk: number } | null {
  const rank = Math.floor((y - HEAD_HEIGHT) / layout.rowPitch);
  if (rank < 0 || rank >= header.num_ranks) return null;
  const chunk = Math.floor((x - LABEL_WIDTH) / layout.columnPitch);
  const inside = x - leftOf(layout, chunk);
  const hit = chunk >= 0 && chunk < header.num_chunks && inside >= 0 && inside < layout.cellWidth;
  return { rank, chunk: hit ? chunk : -1 };
}

/** One arrow for each chunk of each transfer. */
export function arrowsOf(layout: Layout, transfers: readonly Transfer[]): Arrow[] {
  return transfers.flatMap((transfer) => transfer.chunks.map((chunk, index) => arrow(layout, transfer, chunk, transfer.lanes[index])));
}

/** The place on an arrow at a part of its way, 0 to 1. */
export function pointOn({ points }: Arrow, part: number): readonly [number, number] {
  const rest = 1 - part;
  const weights = [rest ** 3, 3 * rest ** 2 * part, 3 * rest * part ** 2, part ** 3];
  const sum = (from: 0 | 1): number => weights.reduce((total, weight, index) => total + weight * points[2 * index + from], 0);
  return [sum(0), sum(1)];
}

function arrow(layout: Layout, transfer: Transfer, chunk: number, lane: number): Arrow {
  const side = transfer.target > transfer.source ? 1 : -1;
  const edge = leftOf(layout, chunk) + (side > 0 ? layout.cellWidth : 0);
  const slip = side * layout.cellHeight * 0.22; // leaves its chunk on the way, and arrives on the near half
  const start = topOf(layout, transfer.source) + layout.cellHeight / 2 + slip;
  const end = topOf(layout, transfer.target) + layout.cellHeight / 2 - slip;
  const wanted = FIRST_LANE + LANE * lane;
  const out = edge + (side * wanted * layout.squeeze) / 0.75; // a cubic curve comes three quarters of the way
  return { chunk, transfer, side, points: [edge, start, out, start, out, end, edge + side * 5, end] };
}

/** Room left and right of a column for the arrows of any step. */
function roomForArrows(header: StepperHeader): [number, number] {
  const lanes: [number, number] = [0, 0];
  for (const { transfers } of header.steps) {
    for (const { source, target, lanes: used } of transfers) {
      const side = target > source ? 1 : 0;
      lanes[side] = Math.max(lanes[side], ...used.map((lane) => lane + 1));
    }
  }
  const room = (count: number): number => (count ? EDGE + FIRST_LANE + LANE * (count - 1) + 6 : EDGE);
  return [room(lanes[0]), room(lanes[1])];
}
