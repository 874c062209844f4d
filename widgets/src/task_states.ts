// How the state of a task looks: its shape, its letter, its colour, and what it means. No state is known by colour alone.
//
// Colours of work are those of the timeline's spans, so that a task and its lane say the same.

import type { Layout, TaskState } from "./lab_types.ts";

export interface StateStyle {
  readonly state: TaskState;
  readonly letter: string;
  readonly says: string;
  readonly shape: "circle" | "octagon" | "hexagon" | "square" | "diamond";
  readonly like: string; // the category of spans whose colour it has, or ""
  readonly color: string; // where that category is not known
  readonly look: "filled" | "hollow" | "dashed";
}

export const STATES: readonly StateStyle[] = [
  { state: "idle", letter: "–", says: "nothing to do", shape: "circle", like: "", color: "#8a949e", look: "hollow" },
  { state: "reading", letter: "R", says: "reads variables", shape: "circle", like: "read", color: "#56b4e9", look: "filled" },
  { state: "computing", letter: "C", says: "computes a step", shape: "circle", like: "compute", color: "#0072b2", look: "filled" },
  { state: "updating", letter: "U", says: "updates variables", shape: "circle", like: "update", color: "#009e73", look: "filled" },
  { state: "waiting", letter: "W", says: "waits for others", shape: "circle", like: "", color: "#8a949e", look: "dashed" },
  { state: "slow", letter: "S", says: "takes longer than it should", shape: "hexagon", like: "", color: "#ca5b1b", look: "filled" },
  { state: "paused", letter: "P", says: "stands still, answers nothing", shape: "square", like: "", color: "#747f8b", look: "filled" },
  { state: "cut off", letter: "X", says: "its messages are lost", shape: "diamond", like: "", color: "#9e66c1", look: "filled" },
  { state: "down", letter: "D", says: "has crashed", shape: "octagon", like: "down", color: "#d1423f", look: "filled" },
  { state: "restarting", letter: "↻", says: "starts again", shape: "octagon", like: "", color: "#1c8d54", look: "hollow" },
];

const BY_NAME = new Map(STATES.map((style) => [style.state, style]));

/** The style of a state; an unknown one looks idle. */
export function styleOf(state: string | undefined): StateStyle {
  return BY_NAME.get(state as TaskState) ?? STATES[0];
}

/** The colour of a state in a layout. */
export function colorOf({ like, color }: StateStyle, { kinds }: Pick<Layout, "kinds">): string {
  return (like && kinds.find(({ name }) => name === like)?.color) || color;
}

/** The outline of a shape, for SVG and canvas, around (0, 0) with about the area of a circle of radius `r`. */
export function outline(shape: StateStyle["shape"], r: number): string {
  if (shape === "circle") return `M${r} 0A${r} ${r} 0 1 1 ${-r} 0A${r} ${r} 0 1 1 ${r} 0Z`;
  if (shape === "square") return box(r * 0.9, r * 0.22);
  const [corners, turn, grow] = shape === "octagon" ? [8, 0.5, 1.06] : shape === "hexagon" ? [6, 0, 1.1] : [4, 0, 1.22];
  const points = Array.from({ length: corners }, (_, i) => {
    const angle = ((i + turn) / corners) * 2 * Math.PI;
    return `${round(Math.cos(angle) * r * grow)} ${round(Math.sin(angle) * r * grow)}`;
  });
  return `M${points.join("L")}Z`;
}

function box(half: number, corner: number): string {
  const [h, c] = [round(half), round(corner)];
  const side = round(2 * (half - corner));
  return `M${-h + c} ${-h}h${side}q${c} 0 ${c} ${c}v${side}q0 ${c} ${-c} ${c}h${-side}q${-c} 0 ${-c} ${-c}v${-side}q0 ${-c} ${c} ${-c}Z`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
