// Where a timeline has its trace from, and who keeps its view. A snapshot has the first half of it, a running cluster all.

import type { OpenSpan } from "./timeline_painter.ts";
import type { TraceData } from "./trace_data.ts";

/** A moment that is marked across all lanes. */
export interface Line {
  readonly time: number; // seconds
  readonly sort: "now" | "cursor" | "pinned" | "difference";
  readonly label?: string;
}

/** A span or an event by its row. */
export interface ChosenRow {
  readonly sort: "span" | "instants";
  readonly row: number;
}

export interface TimelineSource {
  data(): TraceData;
  /** The wanted view, [start, end] in seconds; [] for the whole run. */
  view(): readonly number[];
  saveView(view: readonly number[]): void;
  /** Calls `changed` when somebody else wants another view; returns what ends that. */
  watchView(changed: () => void): () => void;
  readonly live?: LiveParts;
}

/** What a timeline needs to know of a run that goes on. */
export interface LiveParts {
  /** Whether the run can go on, so that there is a present to follow; a recorded one is shown whole. */
  readonly goesOn: boolean;
  /** Calls `changed` when the data or the present have changed. */
  watchData(changed: () => void): () => void;
  /** Calls `changed` when lines have moved and nothing else. */
  watchLines(changed: () => void): () => void;
  lines(): readonly Line[];
  /** What lanes do at present. */
  open(): readonly OpenSpan[];
  /** The present that windows follow, seconds: of branches side by side, that of the one that is shown. */
  now(): number;
  /** The last moment of all branches that stand side by side, seconds: all of them have the same bounds. */
  last(): number;
  /** How much time is in view while the present is followed, seconds. */
  span(): number;
  /** Chooses that, for all timelines of the source; null: as the pace asks. */
  setSpan(span: number | null): void;
  pointAt(time: number | null): void;
  /** The moment that a click has chosen. */
  pinned(): number | null;
  pin(time: number | null): void;
  /** A row was chosen; null: none is any more. */
  choose(row: ChosenRow | null): void;
  /** The rows that are chosen. */
  chosen(): readonly ChosenRow[];
  /** The lane of the task that is chosen in all views, -1 where there is none. */
  lane(): number;
  chooseLane(lane: number): void;
  /** Calls `changed` when other rows or another task have been chosen. */
  watchChosen(changed: () => void): () => void;
}
