// The parts of a stepper on the page: buttons, slider, sentence, progress, matrix, legend. No behaviour.

import { element, shape } from "./dom.ts";
import { formatBytes, formatCount } from "./format.ts";
import type { StepperData, StepRecord } from "./stepper_data.ts";
import { MOST_SEGMENTS, SIGNS } from "./stepper_painter.ts";
import { progress } from "./stepper_text.ts";
import { Tooltip } from "./tooltip.ts";

export interface Frame {
  readonly root: HTMLElement;
  readonly buttons: Readonly<Record<"first" | "back" | "play" | "next" | "last", HTMLButtonElement>>;
  readonly slider: HTMLInputElement;
  readonly sentence: HTMLElement;
  readonly meters: readonly { readonly value: HTMLElement; readonly bar: HTMLElement }[];
  readonly matrix: HTMLElement;
  readonly rank: HTMLElement;
  readonly tooltip: Tooltip;
}

// drawn in a box of 16 x 16
export const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M12 3v10L4.5 8z",
  play: "M4.5 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M4 3v10l7.5-5z",
  last: "M3 3v10l7-5zM11 3h2v10h-2z",
} as const;

const LEVEL = "linear-gradient(90deg, var(--sdw-level) 60%, var(--sdw-empty) 0)";
const KEYS: readonly [string, string][] = [
  ["← →", "step"],
  ["Home End", "first, last"],
  ["Space", "play, pause"],
  ["↑ ↓", "follow one rank"],
  ["Esc", "follow all"],
];

export function buildFrame(data: StepperData): Frame {
  const title = summary(data);
  const frame: Frame = {
    root: element("div", { class: "sdw sdw-stepper", role: "group", "aria-label": title, "data-lm-suppress-shortcuts": "true" }),
    buttons: {
      first: button("first", "First step"),
      back: button("back", "One step back"),
      play: button("play", "Play"),
      next: button("next", "Next step"),
      last: button("last", "Last step"),
    },
    slider: element("input", { type: "range", min: 0, max: data.last, step: 1, value: 0, "aria-label": "Step", disabled: data.last === 0 }),
    sentence: element("p", { class: "sdw-sentence", "aria-live": "polite" }),
    meters: progress(data, 0).map(() => ({ value: element("b"), bar: element("i") })),
    matrix: element("div", { class: "sdw-matrix", tabindex: 0, role: "application", "aria-roledescription": "matrix of ranks and chunks" }),
    rank: element("p", { class: "sdw-rank", "aria-live": "polite" }),
    tooltip: new Tooltip(),
  };
  assemble(frame, data, title);
  return frame;
}

/** Changes what a button shows and is called. */
export function setButton(target: HTMLButtonElement, icon: keyof typeof ICONS, name: string): void {
  if (target.title === name) return;
  const drawing = shape("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" });
  drawing.append(shape("path", { d: ICONS[icon], fill: "currentColor" }));
  target.replaceChildren(drawing);
  target.title = name;
  target.setAttribute("aria-label", name);
}

function assemble(frame: Frame, data: StepperData, title: string): void {
  const names = progress(data, 0).map(({ name }) => name);
  const meters = frame.meters.map(({ value, bar }, index) =>
    element("div", { class: "sdw-progress" }, names[index], " ", value, element("div", { "aria-hidden": "true" }, bar)),
  );
  const bar = { class: "sdw-bar", role: "toolbar", "aria-label": "Steps" };
  const track = element("div", { class: "sdw-track" }, frame.slider, phases(data.header.steps));
  frame.root.append(
    element("p", { class: "sdw-title" }, ...titleParts(title)),
    element("div", bar, ...Object.values(frame.buttons), track),
    frame.sentence,
    element("div", { class: "sdw-meters" }, ...meters),
    frame.matrix,
    frame.rank,
    legend(data),
    element("p", { class: "sdw-keys", "aria-hidden": "true" }, ...keyHints()),
    frame.tooltip.element,
  );
}

/** One line about the whole: what a screen reader says first. */
export function summary({ header, last }: StepperData): string {
  const { name, num_ranks, num_chunks, size_bytes } = header;
  const each = `${formatBytes(Math.round(size_bytes))} each in ${formatCount(num_chunks, "chunk")}`;
  return `${name[0].toUpperCase()}${name.slice(1)}: ${formatCount(num_ranks, "rank")}, ${each}, ${formatCount(last, "step")}`;
}

function titleParts(title: string): (Node | string)[] {
  const end = title.indexOf(":");
  return [element("strong", {}, title.slice(0, end)), title.slice(end + 1)];
}

function button(icon: keyof typeof ICONS, name: string): HTMLButtonElement {
  const made = element("button", { type: "button" });
  setButton(made, icon, name);
  return made;
}

/** A strip under the slider: stretches of steps that add, that replace, or both. */
function phases(steps: readonly StepRecord[]): HTMLElement {
  const runs: { kind: string; length: number }[] = [];
  for (const { transfers } of steps.slice(1)) {
    const adding = transfers.filter(({ adds }) => adds).length;
    const kind = adding === 0 ? "replace" : adding === transfers.length ? "add" : "both";
    if (runs.at(-1)?.kind === kind) (runs.at(-1) as { length: number }).length += 1;
    else runs.push({ kind, length: 1 });
  }
  const parts = runs.map(({ kind, length }) => element("span", { style: `flex-grow:${length}`, "data-kind": kind, title: kind }, kind));
  return element("div", { class: "sdw-phases", "aria-hidden": "true" }, ...parts);
}

function legend({ header }: StepperData): HTMLElement {
  const transfers = header.steps.flatMap((step) => step.transfers);
  const [first] = header.colors;
  const level = header.sums && header.num_ranks > MOST_SEGMENTS;
  const pale = `background:${level ? "var(--sdw-level)" : first};opacity:.3`;
  const few = `width:26px;background:${stripes(header.colors.slice(0, 3))}`;
  const items = [
    level ? item(swatch(`width:26px;background:${LEVEL}`), "how many ranks it holds") : item(swatch(few), "data of one rank each"),
    ...(header.sums ? [item(swatch("background:var(--sdw-complete)"), "the whole sum"), item(swatch(pale), "no longer needed")] : []),
    item(swatch("background:none;border:2px solid var(--sdw-text)"), "received in this step"),
    ...(transfers.some(({ adds }) => adds) ? [item(sign(SIGNS.adds), "added to what is there")] : []),
    ...(transfers.some(({ adds }) => !adds) ? [item(sign(SIGNS.replaces), "replaces what is there")] : []),
  ];
  return element("ul", { class: "sdw-legend", "aria-label": "Legend" }, ...items);
}

function item(mark: Element, text: string): HTMLElement {
  return element("li", {}, mark, text);
}

function swatch(style: string): HTMLElement {
  return element("span", { class: "sdw-swatch", style });
}

function stripes(colors: readonly string[]): string {
  const part = 100 / colors.length;
  return `linear-gradient(90deg, ${colors.map((color, index) => `${color} ${index * part}% ${(index + 1) * part}%`).join(", ")})`;
}

function sign(d: string): SVGElement {
  const ring = shape("circle", { r: 6.5, class: "sdw-badge" });
  const look = { viewBox: "-8 -8 16 16", width: 16, height: 16, "aria-hidden": "true" };
  return shape("svg", look, ring, shape("path", { d, class: "sdw-sign" }));
}

function keyHints(): (Node | string)[] {
  return KEYS.flatMap(([keys, what], index) => [index ? " · " : "", element("kbd", {}, keys), ` ${what}`]);
}
