// What a fault has cost, phase by phase, as a small table: how long each phase took, and how much later the run ends for it.

import { element } from "./dom.ts";
import { formatDuration } from "./format.ts";
import { cut } from "./words.ts";

interface Phase {
  readonly name: string;
  readonly seconds: number;
  readonly cost_s: number;
}

export interface Recovery {
  readonly phases: readonly Phase[];
  readonly cost_s: number;
  readonly text?: string;
  readonly rows?: readonly (readonly [string, string])[]; // the whole story, pairs of a name and a text
}

/** The answer of the kernel as a recovery; null where it is none. */
export function asRecovery(answer: unknown): Recovery | null {
  const found = answer as Partial<Recovery> | null | undefined;
  return Array.isArray(found?.phases) && typeof found.cost_s === "number" ? (found as Recovery) : null;
}

/** A cost with its sign: "+2.19 ms", "none" for less than a nanosecond. */
export function signed(seconds: number): string {
  if (Math.abs(seconds) < 1e-9) return "none";
  return `${seconds > 0 ? "+" : "−"}${formatDuration(Math.abs(seconds))}`;
}

/** What the story says beyond its phases and their cost, which the table has as figures. */
export function furtherRows({ phases, rows }: Recovery): readonly (readonly [string, string])[] {
  const known = new Set(["fault", "cost", ...phases.map(({ name }) => name)]);
  return (rows ?? []).filter(([name]) => !known.has(name));
}

export function recoveryTable(recovery: Recovery): HTMLElement {
  const { phases, cost_s, text } = recovery;
  const heading = ["phase", "took", "cost"].map((name) => element("th", {}, name));
  const rows = phases.map(({ name, seconds, cost_s: cost }) => row(name, formatDuration(seconds), signed(cost)));
  const last = row("the run ends later by", "", signed(cost_s));
  last.className = "sdw-sum";
  const further = furtherRows(recovery).map(([name, says]) => element("tr", {}, element("td", {}, cut(name, 60)), element("td", { colspan: 2 }, cut(says, 200))));
  return element("table", { class: "sdw-recovery", title: cut(text ?? "") }, element("tr", {}, ...heading), ...rows, last, ...further);
}

function row(name: string, took: string, cost: string): HTMLElement {
  return element("tr", {}, element("td", {}, cut(name, 60)), element("td", {}, took), element("td", {}, cost));
}
