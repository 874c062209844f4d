// Sums over every 32 rows of a table: how long each category lasted, and the latest end. Where such a group is narrower than
// a pixel, a lane is drawn from its sums, so that a million spans in view cost what thirty thousand do.

import { withRoom } from "./growing.ts";

export const GROUP = 32; // rows; a page and a block hold whole groups
export const MOST_KINDS = 16; // categories that have sums; a group with another one is drawn row by row
const LEAST_S = 1e-18; // of a row without duration, so that its category is known to be there
const [DIRTY, READY, MIXED] = [0, 1, 2];

interface Columns {
  readonly kind: Uint8Array;
  readonly start: Float64Array;
  readonly duration: Float32Array;
}

export class Groups {
  end = new Float64Array(64); // seconds
  seconds = new Float32Array(64 * MOST_KINDS); // of each category in turn
  private state = new Uint8Array(64);

  /** The row has changed, or come: its group is summed again when it is drawn. */
  touch(row: number): void {
    const group = row >>> 5;
    if (group >= this.state.length) {
      this.state = withRoom(this.state, group + 1);
      this.end = withRoom(this.end, group + 1);
      this.seconds = withRoom(this.seconds, (group + 1) * MOST_KINDS);
    }
    this.state[group] = DIRTY;
  }

  /** Sums a whole group where that is due; false where it cannot stand for its rows. */
  prepare(group: number, columns: Columns): boolean {
    if (this.state[group] === DIRTY) this.sum(group, columns);
    return this.state[group] === READY;
  }

  private sum(group: number, { kind, start, duration }: Columns): void {
    const offset = group * MOST_KINDS;
    this.seconds.fill(0, offset, offset + MOST_KINDS);
    let end = -Infinity;
    let isMixed = false;
    for (let row = group * GROUP; row < (group + 1) * GROUP; row++) {
      if (kind[row] >= MOST_KINDS) isMixed = true;
      else this.seconds[offset + kind[row]] += Math.max(duration[row], LEAST_S);
      end = Math.max(end, start[row] + duration[row]);
    }
    this.end[group] = end;
    this.state[group] = isMixed ? MIXED : READY;
  }
}
