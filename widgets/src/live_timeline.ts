// The timeline of a branch of a running cluster: the same view as that of a snapshot, over a trace that grows.

import type { Source } from "./source.ts";
import type { OpenDown } from "./timeline_painter.ts";
import type { Line, TimelineSource } from "./timeline_source.ts";
import { mountTimeline } from "./timeline_view.ts";
import { DOWN_LEVEL } from "./trace_data.ts";

const SECONDS_IN_VIEW = 5; // real ones, while the present is followed

/** What more a timeline of a Lab may show: another branch than the present one, a moment where two branches part. */
export interface LiveOptions {
  readonly branch?: () => number;
  readonly difference?: () => Line | null;
  /** Calls `listener` when the difference has moved; returns what ends that. */
  readonly redrawn?: (listener: () => void) => () => void;
}

export function timelineSource(source: Source, options: LiveOptions = {}): TimelineSource {
  const branch = options.branch ?? (() => source.state().branch);
  const now = (): number => source.state().branches.find(({ number }) => number === branch())?.now_s ?? source.state().now_s;
  return {
    data: () => source.trace(branch()),
    view: () => source.view(),
    saveView: (view) => source.setView(view),
    watchView: (changed) => source.on("view", changed),
    live: {
      watchData(changed) {
        const ends = [source.on("rows", changed), source.on("state", changed)];
        return () => ends.forEach((end) => end());
      },
      watchLines(changed) {
        const ends = [source.on("cursor", changed), ...(options.redrawn ? [options.redrawn(changed)] : [])];
        return () => ends.forEach((end) => end());
      },
      lines() {
        const cursor = source.cursor();
        const difference = options.difference?.() ?? null;
        const pointed: Line[] = cursor === null ? [] : [{ time: cursor, sort: "cursor" }];
        return [{ time: now(), sort: "now" }, ...pointed, ...(difference ? [difference] : [])];
      },
      open: () => openDown(source, branch(), now()),
      now,
      span: () => source.state().pace * SECONDS_IN_VIEW,
      pointAt: (time) => source.setCursor(time),
      choose(sort, row) {
        const trace = source.trace(branch());
        source.setSelection([(sort === "span" ? trace.spans : trace.instants).record[row]]);
      },
    },
  };
}

/** Lanes of the present branch whose task is down now, since the last serious event there. */
function openDown(source: Source, branch: number, now: number): OpenDown[] {
  const state = source.state();
  if (branch !== state.branch || !state.tasks.includes("down")) return [];
  const trace = source.trace(branch);
  const { instants, header } = trace;
  const eventRows = trace.eventRows();
  const color = header.kinds.find(({ level }) => level >= DOWN_LEVEL)?.color ?? "#d1423f";
  const down = new Map(state.tasks.flatMap((task, index) => (task === "down" ? [[header.lanes.indexOf(source.layout.tasks[index].name), 0]] : [])));
  for (let i = eventRows.length - 1; i >= 0 && [...down.values()].includes(0); i--) {
    const [row, lane] = [eventRows[i], instants.laneOf(eventRows[i])];
    if (down.get(lane) === 0 && header.marks[instants.kind[row]].level >= DOWN_LEVEL) down.set(lane, instants.start[row]);
  }
  return [...down].filter(([lane, start]) => lane >= 0 && start > 0).map(([lane, start]) => ({ lane, start, end: now, color }));
}

/** Shows the timeline of a branch in an element; returns what ends it. */
export function mountLiveTimeline(root: HTMLElement, source: Source, options: LiveOptions = {}): () => void {
  return mountTimeline(root, timelineSource(source, options));
}
