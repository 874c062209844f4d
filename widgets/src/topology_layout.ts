// Where everything of a topology is drawn, in pixels: tasks, racks, links, and the ways that messages take. No drawing.

import type { Hub, Layout, LinkSpec, Task } from "./lab_types.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Placed {
  readonly tasks: readonly Point[];
  readonly hubs: readonly Point[];
  readonly radius: number; // of a task
  readonly labels: readonly string[]; // of each task, as much as there is room for
  readonly racks: readonly { readonly name: string; readonly box: Box }[];
}

const MOST_RADIUS = 21;
const LEAST_RADIUS = 5;
const LABEL_HEIGHT = 15;
const LETTER_WIDTH = 6.4;
export const MOST_LABEL = 18; // characters

/** Places the tasks in a box, which they fill; they are as large as their neighbours let them be. */
export function place({ tasks, hubs }: Pick<Layout, "tasks" | "hubs">, width: number, height: number): Placed {
  const all = [...tasks, ...hubs];
  const side = Math.min(38, width / 8); // half of a label
  const across = scale(all.map(({ x }) => x), side, width - side);
  const down = scale(all.map(({ y }) => y), MOST_RADIUS + 4, height - MOST_RADIUS - LABEL_HEIGHT - 4);
  const at = ({ x, y }: Task | Hub): Point => ({ x: across(x), y: down(y) });
  const points = tasks.map(at);
  const below = leastBelow(points, 2 * MOST_RADIUS);
  const radius = Math.max(LEAST_RADIUS, Math.min(MOST_RADIUS, leastDistance(points) * 0.36, Math.max((below - LABEL_HEIGHT - 4) / 2, below * 0.3)));
  const labels = labelsOf(tasks, points, radius, below);
  return { tasks: points, hubs: hubs.map(at), radius, labels, racks: racksOf(tasks, points, radius) };
}

/** From the least and the greatest of some values to the borders; all in the middle where they are equal. */
function scale(values: readonly number[], low: number, high: number): (value: number) => number {
  const [least, greatest] = [Math.min(...values), Math.max(...values)];
  if (!(greatest - least > 1e-6)) return () => (low + high) / 2;
  return (value) => low + ((value - least) / (greatest - least)) * (high - low);
}

/** Names of tasks, job by job: whole ones, only their numbers, or none, by the room beside and below them. */
function labelsOf(tasks: readonly Task[], points: readonly Point[], radius: number, below: number): string[] {
  const jobs = new Map<string, number[]>();
  tasks.forEach(({ job }, index) => jobs.set(job, [...(jobs.get(job) ?? []), index]));
  const labels = tasks.map(() => "");
  if (below < 2 * radius + LABEL_HEIGHT - 1) return labels;
  for (const members of jobs.values()) {
    const beside = Math.min(...members.map((index) => besideOf(points, index)));
    const longest = Math.max(...members.map((index) => Math.min(tasks[index].name.length, MOST_LABEL))) * LETTER_WIDTH;
    for (const index of members) {
      const { name } = tasks[index];
      if (beside >= longest + 4) labels[index] = name;
      else if (beside >= 3.2 * LETTER_WIDTH && radius >= 8) labels[index] = name.slice(name.lastIndexOf(":") + 1);
    }
  }
  return labels;
}

/** The width of a line, by bandwidth: four times as much is one step more. */
export function lineWidth(link: LinkSpec, links: readonly LinkSpec[]): number {
  const least = Math.min(...links.map((other) => other.bandwidth_bytes_per_s));
  const steps = Math.log(link.bandwidth_bytes_per_s / Math.max(least, 1)) / Math.log(4);
  return Math.min(2 + 1.6 * Math.max(steps, 0), 8);
}

export function nameOf({ name, source, target }: LinkSpec): string {
  return name ?? `${source} -> ${target}`;
}

/** The places that a message passes from one task to another: along the fewest links, or straight where none lead there. */
export class Ways {
  private readonly beside = new Map<string, string[]>();
  private readonly known = new Map<string, readonly string[]>();

  constructor(links: readonly LinkSpec[]) {
    for (const { source, target } of links) {
      for (const [from, to] of [[source, target], [target, source]]) {
        this.beside.set(from, [...(this.beside.get(from) ?? []), to]);
      }
    }
  }

  between(source: string, target: string): readonly string[] {
    const key = `${source}\n${target}`;
    const known = this.known.get(key) ?? this.search(source, target);
    this.known.set(key, known);
    return known;
  }

  private search(source: string, target: string): readonly string[] {
    const from = new Map<string, string>([[source, ""]]);
    const queue = [source];
    for (let next = queue.shift(); next !== undefined && !from.has(target); next = queue.shift()) {
      for (const other of this.beside.get(next) ?? []) {
        if (from.has(other)) continue;
        from.set(other, next);
        queue.push(other);
      }
    }
    if (!from.has(target)) return [source, target];
    const way = [target];
    while (way[0] !== source) way.unshift(from.get(way[0]) ?? source);
    return way;
  }
}

/** The point at a fraction of a way; a little to the right of it, so that both directions are seen. */
export function along(way: readonly Point[], fraction: number, aside = 0): Point {
  const lengths = way.slice(1).map((point, i) => Math.hypot(point.x - way[i].x, point.y - way[i].y));
  let rest = lengths.reduce((sum, length) => sum + length, 0) * Math.min(Math.max(fraction, 0), 1);
  let i = 0;
  while (i < lengths.length - 1 && rest > lengths[i]) rest -= lengths[i++];
  const [from, to, length] = [way[i], way[i + 1] ?? way[i], lengths[i] || 1];
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  return { x: from.x + dx * rest - dy * aside, y: from.y + dy * rest + dx * aside };
}

function racksOf(tasks: readonly Task[], points: readonly Point[], radius: number): Placed["racks"] {
  const numbers = [...new Set(tasks.map(({ rack }) => rack).filter((rack) => rack >= 0))].sort((a, b) => a - b);
  if (numbers.length < 2) return [];
  const pad = radius + 9;
  return numbers.map((rack) => {
    const inside = points.filter((_, index) => tasks[index].rack === rack);
    const [xs, ys] = [inside.map(({ x }) => x), inside.map(({ y }) => y)];
    const [left, top] = [Math.min(...xs) - pad, Math.min(...ys) - pad];
    const bottom = Math.max(...ys) + pad + LABEL_HEIGHT - 5;
    return { name: `rack ${rack}`, box: { x: left, y: top, width: Math.max(...xs) + pad - left, height: bottom - top } };
  });
}

function leastDistance(points: readonly Point[]): number {
  let least = Infinity;
  points.forEach((a, i) => {
    for (let j = i + 1; j < points.length; j++) least = Math.min(least, Math.hypot(a.x - points[j].x, a.y - points[j].y));
  });
  return least;
}

/** The least distance downwards of points that stand below each other. */
function leastBelow(points: readonly Point[], width: number): number {
  let least = Infinity;
  points.forEach((a, i) => {
    for (let j = i + 1; j < points.length; j++) {
      const down = Math.abs(a.y - points[j].y);
      if (down > 1 && Math.abs(a.x - points[j].x) < width) least = Math.min(least, down);
    }
  });
  return least;
}

/** The least distance to the side of a point's neighbours on its line. */
function besideOf(points: readonly Point[], index: number): number {
  const { x, y } = points[index];
  let least = Infinity;
  points.forEach((other, i) => {
    if (i !== index && Math.abs(y - other.y) < LABEL_HEIGHT) least = Math.min(least, Math.abs(x - other.x));
  });
  return least;
}
