// The tasks of a cluster where they stand, the links between them, and the messages on their way. A click on a task says
// what it does and offers what can befall it.

import { CellGrid } from "./cell_grid.ts";
import { element, shape } from "./dom.ts";
import { FlightLayer } from "./flight_layer.ts";
import type { Source } from "./source.ts";
import { TaskCard } from "./task_card.ts";
import { colorOf, outline, STATES } from "./task_states.ts";
import { inkOn, readColors, watchTheme } from "./theme.ts";
import { backdrop, LinkLines, TaskNode } from "./topology_nodes.ts";
import { onLongPress } from "./long_press.ts";
import { place, type Point } from "./topology_layout.ts";

const PART_OF_WIDTH = 0.62; // the height of the picture
const [LEAST_HEIGHT, MOST_HEIGHT] = [230, 460];
const MOST_WIDTH = 740; // of a picture; a wider place stays empty

class Topology {
  readonly root = element("div", { class: "sdw sdw-topology", role: "group", "aria-label": "Cluster", "data-lm-suppress-shortcuts": "true" });
  private readonly stage = element("div", { class: "sdw-stage" });
  private readonly legend = element("ul", { class: "sdw-states", "aria-label": "States" });
  private readonly card: TaskCard;
  private readonly flights: FlightLayer;
  private readonly grid: CellGrid | null;
  private nodes: TaskNode[] = [];
  private points: readonly Point[] = [];
  private links: LinkLines | null = null;
  private chosen = -1; // the task that the keyboard is on
  private width = 0;
  private readonly seen = new Set<string>();
  private shownLegend = "";

  constructor(private readonly source: Source) {
    this.card = new TaskCard(source, () => this.back());
    this.flights = new FlightLayer(source.layout);
    this.grid = source.layout.is_grid || source.layout.tasks.length > 200 ? new CellGrid(source.layout) : null;
    this.root.append(this.stage, this.legend, this.card.element);
    this.stage.addEventListener("click", (event) => this.onClick(event));
    this.stage.addEventListener("keydown", (event) => this.onKey(event));
    this.stage.addEventListener("contextmenu", (event) => this.onMenu(event)); // on some systems a long press is one
    onLongPress(this.stage, (event) => this.onMenu(event));
  }

  /** Draws everything for the present width. */
  readonly fit = (): void => {
    const width = Math.floor(this.stage.clientWidth);
    if (width === 0 || width === this.width) return;
    this.width = width;
    if (this.grid) {
      this.grid.canvas.style.height = `${this.grid.fit(width)}px`;
      if (!this.grid.canvas.isConnected) this.stage.replaceChildren(this.grid.canvas);
    } else {
      const drawn = Math.min(width, MOST_WIDTH);
      this.build(drawn, Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, Math.round(drawn * PART_OF_WIDTH))));
    }
    this.update();
  };

  readonly update = (): void => {
    const state = this.source.state();
    if (this.width === 0) return;
    if (this.grid) this.grid.draw(state.tasks, this.chosen, readColors(this.root), Math.min(devicePixelRatio || 1, 2));
    this.nodes.forEach((node, index) => node.show(state.tasks[index] ?? "idle"));
    this.links?.show(state.loads);
    this.flights.show(state);
    this.card.update();
    this.describe(state.tasks);
  };

  stop(): void {
    this.flights.stop();
  }

  private build(width: number, height: number): void {
    const { layout } = this.source;
    const placed = place(layout, width, height);
    this.points = placed.tasks;
    const at = new Map<string, Point>([
      ...layout.hubs.map((hub, i) => [hub.name, placed.hubs[i]] as const),
      ...layout.tasks.map((task, i) => [task.name, placed.tasks[i]] as const),
    ]);
    this.links = new LinkLines(layout, at, placed.radius);
    this.nodes = layout.tasks.map((task, i) => new TaskNode(task, layout, placed.tasks[i], placed.radius, placed.labels[i]));
    const [racks, hubs] = backdrop(layout, placed);
    const tasks = shape("g", { class: "sdw-tasks" }, ...this.nodes.map(({ group }) => group));
    const words = shape("g", { "aria-hidden": "true", "pointer-events": "none" }, ...this.nodes.map(({ words }) => words));
    const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${layout.tasks.length} tasks` }, racks, this.links.group, hubs, this.flights.group, tasks, words);
    this.stage.replaceChildren(picture);
    this.nodes[Math.max(this.chosen, 0)]?.group.setAttribute("tabindex", "0");
    this.flights.placed(placed);
    this.followTask();
  }

  /** The states that have been seen, each with how many tasks are in it now. */
  private describe(states: readonly string[]): void {
    for (const state of states) this.seen.add(state);
    const counts = STATES.filter(({ state }) => this.seen.has(state)).map((style) => [style, states.filter((state) => state === style.state).length] as const);
    const text = counts.map(([{ state }, count]) => `${state} ${count}`).join();
    if (text === this.shownLegend) return;
    this.shownLegend = text;
    this.legend.replaceChildren(
      ...counts.map(([style, count]) => {
        const color = colorOf(style, this.source.layout);
        const body = shape("path", { d: outline(style.shape, 8), class: `sdw-task-body sdw-${style.look}`, style: `--color:${color}` });
        const ink = style.look === "filled" ? `fill:${inkOn(color)}` : "";
        const letter = shape("text", { class: "sdw-task-letter", "font-size": 9, "text-anchor": "middle", "dominant-baseline": "central", style: ink }, style.letter);
        const icon = shape("svg", { viewBox: "-10 -10 20 20", width: 18, height: 18, "aria-hidden": "true" }, body, letter);
        return element("li", { title: style.says, class: count ? "" : "sdw-none" }, icon, element("span", {}, style.state), element("strong", {}, String(count)));
      }),
    );
  }

  private taskOf(event: MouseEvent): number {
    if (this.grid) return this.grid.taskAt(event.offsetX, event.offsetY);
    const group = (event.target as Element).closest(".sdw-task");
    return this.nodes.findIndex((node) => node.group === group);
  }

  private onClick(event: MouseEvent): void {
    const task = this.taskOf(event);
    if (task < 0 || task === this.card.task) return this.card.close();
    this.choose(task);
    this.open(task);
  }

  private onMenu(event: MouseEvent): void {
    const task = this.taskOf(event);
    if (task < 0) return;
    event.preventDefault();
    this.choose(task);
    if (task !== this.card.task) this.open(task);
  }

  private open(task: number): void {
    this.card.open(task);
    this.source.setTask(this.source.layout.tasks[task].name);
    this.nodes.forEach(({ group }, index) => group.classList.toggle("sdw-open", index === task));
    const [x, y] = this.grid ? this.grid.middle(task) : [this.points[task].x, this.points[task].y];
    const { element: card } = this.card;
    const room = this.room();
    const right = x + 30 + card.offsetWidth <= room;
    card.style.left = `${right ? x + 30 : Math.max(0, Math.min(x - 30 - card.offsetWidth, room - card.offsetWidth))}px`;
    card.style.top = `${Math.max(0, Math.min(y - 40, this.root.clientHeight - card.offsetHeight))}px`;
    card.focus({ preventScroll: true });
  }

  /** Takes over the task that was chosen in another view. */
  readonly followTask = (): void => {
    const name = this.source.task();
    const task = this.source.layout.tasks.findIndex((one) => one.name === name);
    this.nodes.forEach(({ group }, index) => group.classList.toggle("sdw-chosen", index === task));
    if (task >= 0) this.choose(task);
  };

  /** How far to the right a card may reach: over what stands beside the topology, too. */
  private room(): number {
    const lab = this.root.closest(".sdw-lab") ?? this.root;
    return lab.getBoundingClientRect().right - this.root.getBoundingClientRect().left;
  }

  /** The card was closed: the keyboard goes back to where it was. */
  private back(): void {
    this.nodes.forEach(({ group }) => group.classList.remove("sdw-open"));
    (this.grid ? this.grid.canvas : (this.nodes[this.chosen]?.group as unknown as HTMLElement | undefined))?.focus({ preventScroll: true });
  }

  private choose(task: number): void {
    this.nodes[Math.max(this.chosen, 0)]?.group.setAttribute("tabindex", "-1");
    this.chosen = task;
    this.nodes[task]?.group.setAttribute("tabindex", "0");
    if (this.grid) this.update();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" || event.key === " ") {
      if (this.chosen < 0) this.choose(0);
      this.open(this.chosen);
    } else {
      const next = this.neighbour(event.key);
      if (next < 0) return;
      this.choose(next);
      this.nodes[next]?.group.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** The task that an arrow key leads to: the nearest one in its direction. */
  private neighbour(key: string): number {
    const steps: Readonly<Record<string, readonly [number, number]>> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = Object.hasOwn(steps, key) ? steps[key] : null;
    if (!step) return -1;
    const from = Math.max(this.chosen, 0);
    if (this.grid) {
      const next = from + step[0] + step[1] * this.grid.columns;
      return next >= 0 && next < this.source.layout.tasks.length ? next : -1;
    }
    let [best, least] = [-1, Infinity];
    this.points.forEach(({ x, y }, index) => {
      const [dx, dy] = [x - this.points[from].x, y - this.points[from].y];
      const ahead = dx * step[0] + dy * step[1];
      const cost = ahead + 3 * Math.abs(dx * step[1] + dy * step[0]);
      if (ahead > 1 && cost < least) [best, least] = [index, cost];
    });
    return best;
  }
}

/** Shows the topology of a source in an element; returns what ends it. */
export function mountTopology(root: HTMLElement, source: Source): () => void {
  const topology = new Topology(source);
  root.append(topology.root);
  const sizes = new ResizeObserver(topology.fit);
  sizes.observe(topology.root);
  const ends = [source.on("state", topology.update), source.on("task", topology.followTask), watchTheme(topology.update)];
  topology.fit();
  return () => {
    for (const end of ends) end();
    sizes.disconnect();
    topology.stop();
    topology.root.remove();
  };
}
