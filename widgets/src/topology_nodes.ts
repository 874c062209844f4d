// The shapes of a topology: one group for each task, lines for links, boxes for racks. They are made once for a size and
// then only changed where a state has changed.

import { shape } from "./dom.ts";
import type { LabState, Layout, Task } from "./lab_types.ts";
import { colorOf, outline, styleOf } from "./task_states.ts";
import { inkOn } from "./theme.ts";
import { lineWidth, MOST_LABEL, nameOf, type Placed, type Point } from "./topology_layout.ts";
import { cut } from "./words.ts";

const LABEL_HEIGHT = 15; // pixels
const HUB_LABEL_WIDTH = 62;
const LEAST_CHANGE = 0.02; // of a load, that is worth a new colour

/** A task on the picture. */
export class TaskNode {
  readonly group: SVGElement;
  private readonly body = shape("path", { class: "sdw-task-body" });
  readonly words: SVGElement; // letter and label, beside the group: they are no part of the button's name
  private readonly letter: SVGElement;
  private readonly reach: SVGElement;
  private state = "";

  constructor(
    readonly task: Task,
    private readonly layout: Layout,
    { x, y }: Point,
    private readonly radius: number,
    label: string,
  ) {
    const size = Math.max(radius * 0.95, 7);
    const transform = `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
    const centred = { "text-anchor": "middle", "dominant-baseline": "central" };
    this.letter = shape("text", { class: "sdw-task-letter", "font-size": size.toFixed(1), ...centred });
    this.reach = shape("circle", { class: "sdw-task-reach", r: radius + 4 });
    const name = shape("text", { class: "sdw-task-label", y: radius + 14, "text-anchor": "middle" }, cut(label, MOST_LABEL));
    const title = shape("title", {}, cut(task.name));
    this.group = shape("g", { class: "sdw-task", role: "button", tabindex: -1, transform }, title, this.reach, this.body);
    this.words = shape("g", { transform }, this.letter, name);
  }

  show(state: string): void {
    if (state === this.state) return;
    this.state = state;
    const style = styleOf(state);
    const color = colorOf(style, this.layout);
    const isFilled = style.look === "filled";
    this.body.setAttribute("d", outline(style.shape, this.radius));
    this.body.setAttribute("style", `--color:${color}`);
    this.body.setAttribute("class", `sdw-task-body sdw-${style.look}`);
    this.letter.setAttribute("style", isFilled ? `fill:${inkOn(color)}` : "");
    if (this.letter.textContent !== style.letter) this.letter.textContent = this.radius >= 4.8 ? style.letter : "";
    this.group.setAttribute("aria-label", `${cut(this.task.name, 80)}: ${style.state}`);
    this.group.dataset["state"] = state;
  }
}

/** All links: a line as wide as its bandwidth, and over it the same line in the colour of its load. */
export class LinkLines {
  readonly group = shape("g", { class: "sdw-links" });
  private readonly lines: { readonly name: string; readonly line: SVGElement; readonly title: SVGElement; readonly rate: string; load: number }[] = [];

  constructor(
    layout: Layout,
    at: ReadonlyMap<string, Point>,
    radius: number,
  ) {
    const thin = Math.min(1, Math.max(radius / 13, 0.45)); // among small tasks, wide lines would be all that is seen
    for (const link of layout.links) {
      const [from, to] = [at.get(link.source), at.get(link.target)];
      if (!from || !to) continue;
      const ends = { x1: from.x.toFixed(1), y1: from.y.toFixed(1), x2: to.x.toFixed(1), y2: to.y.toFixed(1) };
      const title = shape("title");
      const line = shape("line", { ...ends, class: "sdw-link", "stroke-width": (lineWidth(link, layout.links) * thin).toFixed(1) }, title);
      const rate = `${(link.bandwidth_bytes_per_s / 1e9).toPrecision(3)} GB a second`;
      this.lines.push({ name: nameOf(link), line, title, rate, load: -1 });
      this.group.append(line);
    }
  }

  show(loads: LabState["loads"]): void {
    for (const entry of this.lines) {
      const load = Math.min(Math.max(loads[entry.name] ?? 0, 0), 1);
      if (Math.abs(load - entry.load) < LEAST_CHANGE) continue;
      entry.load = load;
      entry.line.setAttribute("style", `--load:${Math.round(load * 100)}%`);
      entry.title.textContent = cut(`${entry.name}: ${Math.round(load * 100)} % of ${entry.rate}`);
    }
  }
}

/** Racks as quiet boxes behind everything, hubs as small squares with their names. */
export function backdrop(layout: Layout, { racks, hubs }: Placed): SVGElement[] {
  const boxes = racks.map(({ box }) => shape("rect", { ...plain(box), rx: 10, class: "sdw-rack" }));
  return [shape("g", { class: "sdw-racks", "aria-hidden": "true" }, ...boxes), hubShapes(layout, hubs)];
}

function hubShapes({ hubs }: Layout, points: readonly Point[]): SVGElement {
  const shapes = hubs.map(({ name }, i) => {
    const { x, y } = points[i];
    const hasRoom = points.every((other) => Math.abs(other.y - y) > LABEL_HEIGHT || other.x <= x || other.x - x > HUB_LABEL_WIDTH);
    const label = shape("text", { x: 9, y: 0, "dominant-baseline": "central", class: "sdw-hub-label" }, hasRoom ? cut(name, 14) : "");
    return shape("g", { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }, shape("rect", { x: -5, y: -5, width: 10, height: 10, rx: 2.5, class: "sdw-hub" }), label);
  });
  return shape("g", { class: "sdw-hubs", "aria-hidden": "true" }, ...shapes);
}

function plain(box: Placed["racks"][number]["box"]): Record<string, string> {
  return Object.fromEntries(Object.entries(box).map(([name, value]) => [name, value.toFixed(1)]));
}
