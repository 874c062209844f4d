// What of a timeline is chosen, by pointer or keyboard: a lane, a span or an event, and where the keyboard goes on from.

import { FAN_HEIGHT, fanY, layOutFan, memberAt, type Fan } from "./fan.ts";
import type { Hit } from "./hit_test.ts";
import type { View } from "./time_scale.ts";
import type { TraceData } from "./trace_data.ts";
import { atHit, type Position } from "./walk.ts";

export class Selection {
  lane = -1;
  hit: Hit | null = null;
  fan: Fan | null = null; // of the group of events that was hit
  position: Position | null = null; // of what was chosen last; it stays when the pointer leaves

  constructor(private readonly data: TraceData) {}

  /** Chooses what was hit; of a group of events, all are unfolded. */
  choose(hit: Hit | null, view: View, width: number): void {
    const isSameGroup = this.hit?.sort === "instants" && hit?.sort === "instants" && this.hit.rows[0] === hit.rows[0];
    const first = isSameGroup ? this.fan?.first : 0;
    const isGroup = hit?.sort === "instants" && hit.rows.length > 1;
    this.fan = isGroup ? layOutFan(hit.rows, hit.row, this.xOf({ ...hit, row: hit.rows[0] }, view, width), width, first) : null;
    this.hit = hit;
    if (hit) this.position = atHit(this.data, hit);
  }

  /** Chooses a lane, and nothing in it. */
  chooseLane(lane: number): void {
    this.lane = lane;
    this.hit = this.fan = null;
  }

  /** Forgets what is marked, but not where the keyboard is: for a view that has changed. */
  unmark(): void {
    this.hit = this.fan = null;
  }

  /** Forgets rows, since they may have moved; the keyboard goes on from the same moment. */
  rowsMoved(): void {
    this.unmark();
    if (this.position) this.position = { ...this.position, span: -1, instant: -1 };
  }

  clear(): void {
    this.chooseLane(-1);
    this.position = null;
  }

  /** The same hit, on the event of the unfolded group that is at a place of the plot; null beside it. */
  memberUnder(x: number, y: number, laneHeight: number): Hit | null {
    if (!this.fan || !this.hit) return null;
    const reach = Math.max(laneHeight, FAN_HEIGHT) / 2;
    const middle = fanY((this.hit.lane + 0.5) * laneHeight, this.data.header.lanes.length * laneHeight);
    const row = Math.abs(y - middle) <= reach ? memberAt(this.fan, x) : -1;
    return row < 0 ? null : { ...this.hit, row };
  }

  /** Where the start of what was hit is in a view, in pixels. */
  xOf({ sort, row }: Hit, view: View, width: number): number {
    const { start } = sort === "span" ? this.data.spans : this.data.instants;
    return ((start[row] - view.start) / (view.end - view.start)) * width;
  }
}
