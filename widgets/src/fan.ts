// Marks that stand together, unfolded: the instants of one mark side by side, in order of time.

export const FAN_STEP = 19; // pixels from one to the next
export const FAN_HEIGHT = 22; // pixels
const MOST = 15;

export interface Fan {
  readonly left: number; // pixels
  readonly first: number; // index in the group of the first that is shown
  readonly rows: readonly number[]; // those that are shown
}

/**
 * The fan of a group of instants around `x`, inside a plot of `width` pixels. Of a large group a part is shown that has
 * `row` in it; `first` is where that part began before, and it moves no more than it must.
 */
export function layOutFan(group: readonly number[], row: number, x: number, width: number, first = 0): Fan {
  const count = Math.max(1, Math.min(group.length, MOST, Math.floor(width / FAN_STEP)));
  const index = Math.max(group.indexOf(row), 0);
  const from = Math.min(Math.max(first, index - count + 1, 0), index, group.length - count);
  const left = Math.min(Math.max(x - (count * FAN_STEP) / 2, 0), Math.max(width - count * FAN_STEP, 0));
  return { left, first: from, rows: group.slice(from, from + count) };
}

/** The instant of a fan at `x`; -1 beside it. */
export function memberAt({ left, rows }: Fan, x: number): number {
  return rows[Math.floor((x - left) / FAN_STEP)] ?? -1;
}

/** The middle of a fan. */
export function fanCentre({ left, rows }: Fan): number {
  return left + fanReach({ rows });
}

/** How far a fan reaches to both sides of its middle. */
export function fanReach({ rows }: Pick<Fan, "rows">): number {
  return (rows.length * FAN_STEP) / 2;
}

/** The middle of the fan of a lane, which stays inside the plot where lanes are low. */
export function fanY(laneMiddle: number, plotHeight: number): number {
  const half = FAN_HEIGHT / 2 + 2;
  return Math.min(Math.max(laneMiddle, half), Math.max(plotHeight - half, half));
}

/** Where the instant number `index` of a fan is. */
export function memberX({ left }: Fan, index: number): number {
  return left + (index + 0.5) * FAN_STEP;
}
