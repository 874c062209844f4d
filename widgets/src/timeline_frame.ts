// The parts of a timeline on the page: toolbar, strips, lane names, plot, legend. No behaviour.

import { element } from "./dom.ts";
import { formatCount, formatDuration, formatMomentOf } from "./format.ts";
import { glyphElement } from "./glyphs.ts";
import { laneLabel } from "./labels.ts";
import { laneHeight } from "./timeline_painter.ts";
import { Tooltip } from "./tooltip.ts";
import type { Table } from "./table.ts";
import type { View } from "./time_scale.ts";
import { cut } from "./words.ts";
import { DOWN_LEVEL, type Kind, type TraceData, type TraceHeader } from "./trace_data.ts";

export interface Frame {
  readonly root: HTMLElement;
  readonly range: HTMLElement;
  readonly buttons: Readonly<Record<"follow" | "previous" | "next" | "out" | "in" | "fit", HTMLButtonElement>>;
  readonly corner: HTMLElement;
  readonly overview: HTMLCanvasElement;
  readonly axis: HTMLCanvasElement;
  readonly lanes: HTMLElement;
  readonly scroll: HTMLElement;
  readonly lines: HTMLElement; // over the plot
  readonly empty: HTMLElement; // what is said where nothing was recorded
  readonly legend: HTMLElement;
  readonly plot: HTMLCanvasElement;
  readonly over: HTMLCanvasElement; // what the pointer or the keyboard is on, drawn over the plot
  readonly spoken: HTMLElement;
  readonly tooltip: Tooltip;
}

const LABEL_HEIGHT = 14; // pixels
const KEYS: readonly [string, string][] = [
  ["wheel", "zoom (after a click, or with Ctrl)"],
  ["drag, ← →", "move"],
  ["+ − 0", "zoom, fit"],
  ["↑ ↓", "lane"],
  [", .", "span"],
  ["p n", "event, also of those that stand together"],
];

/** The frame of a timeline; a live one has a button that follows the present. */
export function buildFrame(data: TraceData, isLive = false): Frame {
  const frame: Frame = {
    root: element("div", { class: "sdw sdw-timeline", role: "group", "aria-label": summary(data) }),
    range: element("div", { class: "sdw-range" }),
    buttons: {
      follow: button("Follow", "Follow the present"),
      previous: button("◂ event", "Previous event"),
      next: button("event ▸", "Next event"),
      out: button("−", "Zoom out"),
      in: button("+", "Zoom in"),
      fit: button("Fit", "Fit the whole run"),
    },
    corner: element("div", { class: "sdw-corner" }),
    overview: element("canvas", { class: "sdw-overview", role: "img", "aria-label": "The whole run; click to go" }),
    axis: element("canvas", { class: "sdw-axis", "aria-hidden": "true" }),
    lanes: element("div", { class: "sdw-lanes", "aria-hidden": "true" }),
    scroll: element("div", { class: "sdw-scroll" }),
    lines: element("div", { class: "sdw-line" }),
    empty: element("p", { class: "sdw-empty" }),
    legend: element("ul", { class: "sdw-legend", "aria-label": "Legend" }),
    plot: element("canvas", {
      class: "sdw-plot",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "timeline",
      "data-lm-suppress-shortcuts": "true", // JupyterLab must not take the keys
    }),
    over: element("canvas", { class: "sdw-over", "aria-hidden": "true" }),
    spoken: element("div", { class: "sdw-spoken", "aria-live": "polite" }),
    tooltip: new Tooltip(),
  };
  frame.buttons.follow.hidden = !isLive;
  assemble(frame, data);
  refreshFrame(frame, data);
  return frame;
}

const shown = new WeakMap<Frame, string>(); // what a frame was refreshed for last

/** Brings names of lanes, legend and height up to date. */
export function refreshFrame(frame: Frame, data: TraceData): void {
  const { lanes, kinds, marks, empty_text } = data.header;
  const counts = [kinds.map((_, kind) => data.spans.countOf(kind) > 0), marks.map((_, mark) => data.instants.countOf(mark))];
  const key = JSON.stringify([lanes, counts]);
  if (shown.get(frame) === key) return;
  shown.set(frame, key);
  const height = `${lanes.length * laneHeight(lanes.length)}px`;
  frame.lanes.style.height = height; // the plot is as high as what is seen of it
  frame.plot.setAttribute("aria-label", `${summary(data)} ${KEYS.map(([keys, what]) => `${keys}: ${what}`).join("; ")}`);
  frame.root.setAttribute("aria-label", summary(data));
  frame.lanes.replaceChildren(...laneNames(data));
  frame.legend.replaceChildren(...legend(data));
  frame.empty.textContent = empty_text;
  frame.empty.hidden = empty_text === "";
  frame.root.classList.toggle("sdw-nothing", empty_text !== "");
}

/** Says in words what is in view. */
export function describeRange(frame: Frame, view: View, bounds: View, header: TraceHeader, follows: boolean): void {
  const { start, end } = view;
  const whole = start === bounds.start && end === bounds.end;
  const length = element("strong", {}, formatDuration(whole ? header.last_s - header.first_s : end - start));
  const first = formatMomentOf(Math.max(start, 0), end - start);
  frame.range.replaceChildren(length, whole ? " of virtual time, the whole run" : ` from ${first}`);
  frame.root.dataset["view"] = `${start},${end}`;
  frame.buttons.fit.disabled = frame.buttons.out.disabled = whole;
  frame.buttons.follow.setAttribute("aria-pressed", String(follows));
}

function assemble(frame: Frame, data: TraceData): void {
  const bar = { class: "sdw-bar", role: "toolbar", "aria-label": "Timeline" };
  const spacer = element("div", { class: "sdw-corner" }, "run");
  frame.lines.append(frame.lanes, element("div", { class: "sdw-plots" }, frame.plot, frame.over));
  frame.scroll.append(frame.lines);
  frame.scroll.append(frame.empty);
  frame.root.append(
    element("div", bar, frame.range, ...Object.values(frame.buttons)),
    element("div", { class: "sdw-line" }, spacer, frame.overview),
    element("div", { class: "sdw-line" }, frame.corner, frame.axis),
    frame.scroll,
    frame.legend,
    element("p", { class: "sdw-keys", "aria-hidden": "true" }, ...keyHints()),
    frame.spoken,
    frame.tooltip.element,
  );
  const { facts_left_out } = data.header;
  if (facts_left_out > 0) {
    const text = `Facts of ${formatCount(facts_left_out, "span")} are left out to keep this picture small.`;
    frame.root.append(element("p", { class: "sdw-note" }, text));
  }
}

/** One sentence about the run: what a screen reader says first. */
export function summary(data: TraceData): string {
  const counts = countKinds(data.instants, data.header.marks).filter(([kind]) => kind.level > 0);
  const events = counts.map(([kind, count]) => formatCount(count, kind.name)).join(", ") || "no faults";
  const { lanes, not_restarted, empty_text } = data.header;
  const spans = formatCount(data.spans.count - not_restarted, "span");
  return `Timeline of ${formatCount(lanes.length, "lane")}, ${spans}, ${events}.${empty_text && ` ${empty_text}`}`;
}

function countKinds<K extends Kind>(table: Table, kinds: readonly K[]): [K, number][] {
  return kinds.map((kind, index): [K, number] => [kind, table.countOf(index)]).filter(([, count]) => count > 0);
}

function button(text: string, label: string): HTMLButtonElement {
  return element("button", { type: "button", title: label, "aria-label": label }, text);
}

function laneNames(data: TraceData): HTMLElement[] {
  const { lanes } = data.header;
  const height = laneHeight(lanes.length);
  const every = Math.ceil((LABEL_HEIGHT - 1) / height); // names of very low lanes would overlap
  return lanes.map((lane, index) => {
    const { text, isPart } = laneLabel(lane);
    const labelHeight = Math.max(height, LABEL_HEIGHT);
    const style = `top:${Math.max(0, (index + 0.5) * height - labelHeight / 2)}px;height:${labelHeight}px`;
    const between = index % every !== 0; // shown only while it is the chosen lane
    return element("div", { style, class: `${isPart ? "sdw-device" : ""} ${between ? "sdw-between" : ""}`, title: cut(lane) }, text);
  });
}

function legend(data: TraceData): HTMLElement[] {
  const spans = countKinds(data.spans, data.header.kinds).map(([kind, count]) =>
    element("li", { title: formatCount(count, "span") }, swatch(kind), kind.name),
  );
  const marks = countKinds(data.instants, data.header.marks).map(([kind, count]) =>
    element("li", { title: `${count} times` }, glyphElement(kind), `${kind.name} ${count.toLocaleString("en-US")}`),
  );
  return [...spans, ...marks];
}

function swatch(kind: Kind): HTMLElement {
  const hatched = `repeating-linear-gradient(135deg, ${kind.color} 0 1.5px, ${kind.color}30 1.5px 4px)`;
  const fill = kind.level >= DOWN_LEVEL ? hatched : kind.level === 0 ? `${kind.color}61` : kind.color;
  return element("span", { class: "sdw-swatch", style: `background:${fill}` });
}

function keyHints(): (Node | string)[] {
  return KEYS.flatMap(([keys, what], index) => [index ? " · " : "", element("kbd", {}, keys), ` ${what}`]);
}
