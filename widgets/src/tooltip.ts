// The small card with the facts of what is under the pointer, and the same facts as one spoken line.

import { element } from "./dom.ts";
import { formatDuration, formatFact, formatMoment } from "./format.ts";
import type { Hit } from "./hit_test.ts";
import type { TraceData } from "./trace_data.ts";
import { cut } from "./words.ts";

const MOST_LISTED = 12;

/** One thing that the card speaks of. */
export interface Group {
  readonly title: string;
  readonly color: string;
  readonly facts: readonly (readonly [string, string])[];
  readonly isList?: boolean; // of what else is there
}

/** What a hit means, innermost first. */
export function describe(data: TraceData, hit: Hit): Group[] {
  const lane = data.header.lanes[hit.lane];
  if (hit.sort === "instants") {
    const one = describeInstant(data, lane, hit.row);
    return hit.rows.length > 1 ? [one, listed(data, hit.rows, hit.row)] : [one];
  }
  const groups = [describeSpan(data, lane, hit.row)];
  return hit.outer >= 0 ? [...groups, describeSpan(data, lane, hit.outer)] : groups;
}

/** All instants of a group, one a line; of a large group those around the one that is described. */
function listed(data: TraceData, rows: readonly number[], row: number): Group {
  const index = rows.indexOf(row);
  const first = Math.max(0, Math.min(index - MOST_LISTED / 2, rows.length - MOST_LISTED));
  const line = (other: number): readonly [string, string] => [
    formatMoment(data.instants.start[other]),
    `${other === row ? "▸ " : ""}${data.names[data.instants.name[other]]}`,
  ];
  const more = rows.length > MOST_LISTED ? [["", `n and p go through all ${rows.length}`] as const] : [];
  const facts = [...rows.slice(first, first + MOST_LISTED).map(line), ...more];
  return { title: `${index + 1} of ${rows.length} here`, color: "", facts, isList: true };
}

function describeInstant(data: TraceData, lane: string, row: number): Group {
  const kind = data.header.marks[data.instants.kind[row]];
  const facts = Object.entries(data.instants.facts(row)).map(([key, value]) => [key, formatFact(value)] as const);
  const own = [["lane", lane], ["category", kind.name], ["at", formatMoment(data.instants.start[row])]] as const;
  return { title: data.names[data.instants.name[row]], color: kind.color, facts: [...own, ...facts] };
}

function describeSpan(data: TraceData, lane: string, row: number): Group {
  const { spans, header, names } = data;
  const kind = header.kinds[spans.kind[row]];
  const facts = Object.entries(spans.facts(row)).map(([key, value]) => [key, formatFact(value)] as const);
  const own = [
    ["lane", lane],
    ["category", kind.name],
    ["start", formatMoment(spans.start[row])],
    ["duration", formatDuration(spans.duration[row])],
  ] as const;
  return { title: names[spans.name[row]], color: kind.color, facts: [...own, ...facts] };
}

/** The same as one sentence, for a screen reader; of a list only its title. */
export function spoken(groups: readonly Group[]): string {
  return groups
    .map((group) => (group.isList ? { ...group, facts: [] } : group))
    .map(({ title, facts }) => [title, ...facts.map(([key, value]) => `${key} ${value}`)].join(", "))
    .join("; ");
}

export class Tooltip {
  readonly element = element("div", { class: "sdw-tooltip", hidden: true });

  /** Shows the groups near a place of the widget, inside its borders, and at least `reach` pixels to the side of it. */
  show(groups: readonly Group[], x: number, y: number, reach = 0): void {
    this.element.replaceChildren(...groups.map(card));
    this.element.hidden = false;
    const frame = this.element.parentElement as HTMLElement;
    const [width, height] = [this.element.offsetWidth, this.element.offsetHeight];
    const gap = reach + 14;
    const left = x + gap + width <= frame.clientWidth ? x + gap : Math.max(0, x - gap - width);
    const above = y - 10 - height;
    const below = Math.min(y + 16, Math.max(0, frame.clientHeight - height)); // beside the pointer rather than cut off
    const top = y + 16 + height > frame.clientHeight && above >= 0 ? above : below;
    this.element.style.left = `${left}px`;
    this.element.style.top = `${top}px`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}

function card({ title, color, facts }: Group): HTMLElement {
  const swatch = color ? [element("span", { class: "sdw-swatch", style: `background:${color}` })] : [];
  const rows = facts.flatMap(([key, value]) => [element("dt", {}, cut(key, 60)), element("dd", {}, cut(value))]);
  return element(
    "div",
    { class: "sdw-tooltip-group" },
    element("div", { class: "sdw-tooltip-title" }, ...swatch, element("span", {}, cut(title))),
    ...(rows.length ? [element("dl", { class: "sdw-facts" }, ...rows)] : []),
  );
}
