// The timeline of a branch of a running cluster: the same view as that of a snapshot, over a trace that grows.

import { deadSpans, OpenSpans } from "./open_spans.ts";
import type { Source } from "./source.ts";
import { taskOf } from "./labels.ts";
import type { Line, TimelineSource } from "./timeline_source.ts";
import { mountTimeline } from "./timeline_view.ts";

const SECONDS_IN_VIEW = 5; // real ones, while the present is followed
const MOST_CHOSEN = 2000; // rows that are framed

/** What more a timeline of a Lab may show: another branch than the present one, a moment where two branches part. */
export interface LiveOptions {
  readonly branch?: () => number;
  /** The branch that stands beside it and shares its time; null: none. */
  readonly beside?: () => number | null;
  readonly difference?: () => Line | null;
  /** Calls `listener` when the difference has moved; returns what ends that. */
  readonly redrawn?: (listener: () => void) => () => void;
}

export function timelineSource(source: Source, options: LiveOptions = {}): TimelineSource {
  const branch = options.branch ?? (() => source.state().branch);
  const now = (): number => source.state().branches.find(({ number }) => number === branch())?.now_s ?? source.state().now_s;
  const last = (): number => {
    const others = [branch(), source.state().branch, options.beside?.() ?? null].filter((one) => one !== null);
    return Math.max(...others.map((one) => source.trace(one).header.last_s));
  };
  const open = new OpenSpans(source);
  return {
    data: () => source.trace(branch()),
    view: () => source.view(),
    saveView: (view) => source.setView(view),
    watchView: (changed) => source.on("view", changed),
    live: {
      goesOn: source.canControl,
      watchData(changed) {
        const ends = [source.on("rows", changed), source.on("state", changed), ...(options.redrawn ? [options.redrawn(changed)] : [])];
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
        const pinned = source.pinned();
        const chosen: Line[] = pinned === null ? [] : [{ time: pinned, sort: "pinned" }];
        return [{ time: now(), sort: "now" }, ...chosen, ...pointed, ...(difference ? [difference] : [])];
      },
      open: () => (branch() === source.state().branch ? open.now() : deadSpans(source.trace(branch()), now())),
      now: () => source.state().now_s,
      last,
      span: () => source.span() ?? source.state().pace * SECONDS_IN_VIEW,
      setSpan: (span) => source.setSpan(span),
      pointAt: (time) => source.pointAt(time),
      pinned: () => source.pinned(),
      pin: (time) => source.pin(time),
      choose(chosen) {
        const trace = source.trace(branch());
        source.setSelection(chosen ? [(chosen.sort === "span" ? trace.spans : trace.instants).record[chosen.row]] : []);
      },
      chosen() {
        const trace = source.trace(branch());
        const isShown = branch() === source.state().branch; // numbers are those of its records
        return isShown ? source.selection().slice(0, MOST_CHOSEN).flatMap((record) => trace.find(record) ?? []) : [];
      },
      lane: () => source.trace(branch()).header.lanes.indexOf(source.task() ?? ""),
      chooseLane(lane) {
        const name = taskOf(source.trace(branch()).header.lanes[lane]);
        source.setTask(source.layout.tasks.some((task) => task.name === name) ? name : null);
      },
      watchChosen(changed) {
        const ends = [source.on("selection", changed), source.on("task", changed)];
        return () => ends.forEach((end) => end());
      },
    },
  };
}

/** Shows the timeline of a branch in an element; returns what ends it. */
export function mountLiveTimeline(root: HTMLElement, source: Source, options: LiveOptions = {}): () => void {
  return mountTimeline(root, timelineSource(source, options));
}
