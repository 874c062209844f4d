// One chart over virtual time, drawn by uPlot; its name and its value stand above it as text.

import type uPlot from "uplot";
import { formatValue, valueAt, type ChartData } from "./chart_data.ts";
import { element } from "./dom.ts";
import type { Colors } from "./theme.ts";
import { axis, type Tick, type View } from "./time_scale.ts";

const HEIGHT = 123; // pixels
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#747f8b"];
const LABEL_GAP = 74; // pixels between labels of time
const LEAST_GAP = 46; // where that leaves fewer than three labels
const FEW_POINTS = 8; // of a line, which are drawn as dots as well

export interface ChartEvents {
  point(time: number | null): void;
  zoom(view: readonly number[]): void;
}

export class Chart {
  readonly element: HTMLElement;
  private readonly name = element("span");
  private readonly value = element("strong");
  private readonly place = element("div", { class: "sdw-chart-place" });
  private plot: uPlot | null = null;
  private data: ChartData | null = null;
  private view: View = { start: 0, end: 1 };
  private shape = ""; // of what the plot was made for
  private isPointing = false;

  constructor(
    private readonly UPlot: typeof uPlot,
    private readonly events: ChartEvents,
  ) {
    this.element = element("figure", { class: "sdw-chart" }, element("figcaption", {}, this.name, this.value), this.place);
    this.place.addEventListener("dblclick", () => events.zoom([]));
  }

  show(data: ChartData, view: View, width: number, colors: Colors): void {
    [this.data, this.view] = [data, view];
    if (this.name.textContent !== data.name) this.name.textContent = data.name;
    const shape = JSON.stringify([data.name, data.lines.map(({ label, isOther }) => [label, isOther]), width, colors]);
    if (shape !== this.shape) this.make(width, colors);
    this.shape = shape;
    this.plot?.setData(this.table(data), false);
    this.plot?.setScale("x", { min: view.start, max: view.end });
    this.point(null);
  }

  /** Shows the value at a moment; null: the last one. */
  point(time: number | null): void {
    const { data, plot } = this;
    const line = data?.lines.find(({ isOther }) => !isOther) ?? data?.lines[0];
    if (!data || !line) return;
    const value = time === null ? (line.readings.values.at(-1) ?? null) : valueAt(line.readings, time, data.isStepped);
    const text = formatValue(value, data.isShare);
    if (this.value.textContent !== text) this.value.textContent = text;
    this.element.setAttribute("aria-label", `${data.name}: ${text}`);
    if (!plot || this.isPointing) return;
    const inView = time !== null && time >= this.view.start && time <= this.view.end;
    plot.setCursor({ left: inView ? plot.valToPos(time, "x") : -10, top: inView ? 5 : -10 }, false);
  }

  destroy(): void {
    this.plot?.destroy();
    this.element.remove();
  }

  private make(width: number, colors: Colors): void {
    this.plot?.destroy();
    const { data } = this;
    if (!data || width < 60) return;
    this.plot = new this.UPlot(this.options(data, width, colors), this.table(data), this.place);
    this.plot.over.addEventListener("pointerenter", () => (this.isPointing = true));
    this.plot.over.addEventListener("pointerleave", () => {
      this.isPointing = false;
      this.events.point(null);
    });
  }

  private options(data: ChartData, width: number, colors: Colors): uPlot.Options {
    const style = { stroke: colors.softText, font: `10.5px ${colors.font}`, ticks: { show: false } };
    const grid = { stroke: colors.grid, width: 1 };
    const ticks = (u: uPlot, min: number, max: number) => timeTicks({ start: min, end: max }, u.bbox.width / devicePixelRatio);
    return {
      width,
      height: HEIGHT,
      padding: [6, 16, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, auto: false }, y: data.isShare ? { range: [0, 1] } : { range: rangeOf } },
      axes: [
        { ...style, grid, size: 27, gap: 8, splits: (u, _axis, min, max) => ticks(u, min, max).map(({ time }) => time), values: (u) => ticks(u, u.scales["x"].min ?? 0, u.scales["x"].max ?? 1).map(({ label }) => label) },
        { ...style, grid, size: 42, gap: 4, space: 26, values: (_u, splits) => splits.map((split) => formatTick(split, data.isShare)) },
      ],
      series: [{}, ...data.lines.map((line, index) => this.series(line.isOther, index, data, colors))],
      hooks: {
        setCursor: [(u) => this.isPointing && this.events.point(u.cursor.left === undefined || u.cursor.left === null || u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))],
        setSelect: [(u) => this.zoomTo(u)],
      },
    };
  }

  private zoomTo(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    this.events.zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  private series(isOther: boolean, index: number, data: ChartData, colors: Colors): uPlot.Series {
    const own = data.lines.filter((line) => !line.isOther).length;
    const color = own === 1 ? (isOther ? colors.softText : colors.focus) : PALETTE[(isOther ? index - own : index) % PALETTE.length];
    const fill = own === 1 && !isOther && !colors.forced ? { fill: `color-mix(in srgb, ${color} 13%, transparent)` } : {};
    const stepped = data.isStepped ? this.UPlot.paths.stepped : undefined;
    const paths = stepped ? { paths: stepped({ align: 1 }) } : {};
    return { stroke: color, width: 1.6, points: { show: hasFew, size: 5, fill: color }, spanGaps: true, ...(isOther ? { dash: [5, 4] } : fill), ...paths };
  }

  /** The columns of all lines over all of their times. */
  private table({ lines }: ChartData): uPlot.AlignedData {
    const tables = lines.map(({ times, values }): uPlot.AlignedData => [[...times], [...values]]);
    return tables.length === 1 ? tables[0] : this.UPlot.join(tables);
  }
}

/** Whether a line has so few points that each is drawn: a line of one point would not be seen at all. */
function hasFew(plot: uPlot, series: number): boolean {
  let count = 0;
  for (const value of plot.data[series]) if (value !== null && value !== undefined && ++count > FEW_POINTS) return false;
  return true;
}

/** Labels of time: far apart, but in a narrow chart rather close together than only one. */
export function timeTicks(view: View, width: number): readonly Tick[] {
  const { ticks } = axis(view, width, LABEL_GAP);
  return ticks.length < 3 ? axis(view, width, LEAST_GAP).ticks : ticks;
}

/** A little more than the values, from zero where they are near it. */
export function rangeOf(_plot: unknown, least: number | null, greatest: number | null): [number, number] {
  const [low, high] = [least ?? 0, greatest ?? 1];
  if (low === 0 && high === 0) return [0, 1];
  const room = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low < (high - low) * 0.8 ? 0 : low - room, high + room];
}

function formatTick(value: number, isShare: boolean): string {
  if (isShare) return `${Math.round(value * 100)} %`;
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(0);
  return String(Number(value.toPrecision(6)));
}
