// Messages in flight, as dots on the links: size by bytes, colour by kind. They move only between two states of the run.

import { shape } from "./dom.ts";
import { along, Ways, type Placed, type Point } from "./topology_layout.ts";
import { dotRadius, Glide, progress, slowest } from "./flights.ts";
import type { Flight, LabState, Layout } from "./lab_types.ts";

const ASIDE = 3.5; // pixels from the middle of a link
const OTHER = "#8a949e";
const LIKE: Readonly<Record<string, string>> = { read: "read", update: "update", variable: "read", gradient: "update", apply: "apply", collective: "collective" };

/** The colour of a kind of messages: that of the spans that it belongs to. */
export function messageColor(kind: string, { kinds }: Pick<Layout, "kinds">): string {
  const word = Object.keys(LIKE).find((known) => kind.includes(known));
  return kinds.find(({ name }) => name === kind || name === (word && LIKE[word]))?.color ?? OTHER;
}

export class FlightLayer {
  readonly group = shape("g", { class: "sdw-flights", "aria-hidden": "true" });
  private readonly ways: Ways;
  private readonly glide = new Glide();
  private readonly speeds = new Map<string, number>();
  private dots: SVGElement[] = [];
  private places = new Map<string, Point>();
  private flights: readonly Flight[] = [];
  private frame = 0;
  private size = 1; // of dots; smaller where tasks are small

  constructor(private readonly layout: Layout) {
    this.ways = new Ways(layout.links);
  }

  placed(placed: Placed): void {
    const { tasks, hubs } = this.layout;
    this.size = Math.min(1, placed.radius / 13);
    this.flights.forEach((flight, i) => this.dress(this.dots[i], flight));
    this.places = new Map([
      ...hubs.map((hub, i) => [hub.name, placed.hubs[i]] as const),
      ...tasks.map((task, i) => [task.name, placed.tasks[i]] as const),
    ]);
    this.draw();
  }

  show(state: LabState): void {
    const still = state.state !== "playing" || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.glide.follow(state.now_s, performance.now() / 1000, still);
    this.flights = state.flights.filter(({ source, target }) => this.places.has(source) && this.places.has(target));
    while (this.dots.length < this.flights.length) this.dots.push(this.group.appendChild(shape("circle", { class: "sdw-dot" })));
    this.flights.forEach((flight, i) => this.dress(this.dots[i], flight));
    for (let i = this.flights.length; i < this.dots.length; i++) this.dots[i].setAttribute("visibility", "hidden");
    this.draw();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  private readonly draw = (): void => {
    cancelAnimationFrame(this.frame);
    const real = performance.now() / 1000;
    const now = this.glide.at(real);
    this.flights.forEach((flight, i) => {
      const names = this.ways.between(flight.source, flight.target);
      const way = names.flatMap((name) => this.places.get(name) ?? []);
      const { x, y } = along(way, progress(flight, now, this.speed(names)), ASIDE);
      this.dots[i].setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    });
    if (this.flights.length && this.glide.isMoving(real)) this.frame = requestAnimationFrame(this.draw);
  };

  private dress(dot: SVGElement, flight: Flight): void {
    const known = (flight.ends_s ?? null) !== null;
    dot.setAttribute("r", (dotRadius(flight.bytes) * this.size).toFixed(1));
    dot.setAttribute("visibility", "visible");
    dot.setAttribute("style", `--color:${messageColor(flight.kind, this.layout)}`);
    dot.classList.toggle("sdw-open", !known);
  }

  private speed(way: readonly string[]): number {
    const key = way.join("\n");
    const known = this.speeds.get(key) ?? slowest(way, this.layout.links);
    this.speeds.set(key, known);
    return known;
  }
}
