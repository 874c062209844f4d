// The charts of a run, side by side: loss and other counters, the queue, how busy the workers were.

import type uPlot from "uplot";
import { Chart } from "./chart.ts";
import { chartsOf, endOf, shownTime, type Charted } from "./chart_data.ts";
import { element } from "./dom.ts";
import type { Comparing } from "./comparing.ts";
import type { Source } from "./source.ts";
import { readColors, watchTheme, type Colors } from "./theme.ts";

const LEAST_WIDTH = 210; // pixels of a chart
const GAP = 16;
const EVERY_MS = 90; // between two drawings while a run plays

class Charts {
  readonly root = element("div", { class: "sdw sdw-charts", role: "group", "aria-label": "Charts" });
  private readonly charts = new Map<string, Chart>();
  private readonly none = element("p", { class: "sdw-quiet" }, "Charts appear here when the program records something.");
  private colors: Colors | null = null;
  private timer = 0;
  private last = 0;

  constructor(
    private readonly UPlot: typeof uPlot,
    private readonly source: Source,
    private readonly comparing: Comparing | null,
  ) {}

  /** Draws soon, and not more often than can be followed. */
  readonly later = (): void => {
    if (this.timer) return;
    const wait = Math.max(0, EVERY_MS - (performance.now() - this.last));
    this.timer = window.setTimeout(this.draw, wait);
  };

  readonly point = (): void => {
    for (const chart of this.charts.values()) chart.point(this.source.cursor());
  };

  readonly themeChanged = (): void => {
    this.colors = null;
    this.later();
  };

  stop(): void {
    clearTimeout(this.timer);
    for (const chart of this.charts.values()) chart.destroy();
  }

  private readonly draw = (): void => {
    this.timer = 0;
    this.last = performance.now();
    const width = this.root.clientWidth;
    if (width === 0) return;
    const colors = (this.colors ??= readColors(this.root));
    const state = this.source.state();
    const other = this.comparing?.other ?? null;
    const charted = (branch: number): Charted => {
      const { now_s, state: run } = state.branches.find(({ number }) => number === branch) ?? state;
      return { trace: this.source.trace(branch), now: now_s, isOver: run === "finished" };
    };
    const [shownBranch, otherBranch] = [charted(state.branch), other === null ? null : charted(other)];
    const view = shownTime(this.source.view(), Math.max(endOf(shownBranch), otherBranch ? endOf(otherBranch) : 0));
    const all = chartsOf(shownBranch, otherBranch, view);
    const columns = Math.max(1, Math.min(3, all.length, Math.floor((width + GAP) / (LEAST_WIDTH + GAP))));
    const each = Math.floor((width + GAP) / columns) - GAP;
    this.root.style.setProperty("--columns", String(columns));
    const shown = all.filter(({ lines }) => lines.some(({ times }) => times.length > 0));
    for (const [name, chart] of this.charts) if (!shown.some((data) => data.name === name)) this.drop(name, chart);
    for (const data of shown) this.chart(data.name).show(data, view, each, colors);
    this.none.remove();
    if (shown.length === 0) this.root.append(this.none);
    this.point();
  };

  private chart(name: string): Chart {
    const known = this.charts.get(name);
    if (known) return known;
    const chart = new Chart(this.UPlot, { point: (time) => this.source.pointAt(time), zoom: (view) => this.source.setView(view) });
    this.charts.set(name, chart);
    this.root.append(chart.element);
    return chart;
  }

  private drop(name: string, chart: Chart): void {
    chart.destroy();
    this.charts.delete(name);
  }
}

/** Shows the charts of a source in an element, drawn by uPlot; returns what ends it. */
export function mountCharts(UPlot: typeof uPlot, root: HTMLElement, source: Source, comparing: Comparing | null = null): () => void {
  const charts = new Charts(UPlot, source, comparing);
  root.append(charts.root);
  const sizes = new ResizeObserver(charts.later);
  sizes.observe(charts.root);
  const ends = [
    ...(["state", "rows", "view"] as const).map((event) => source.on(event, charts.later)),
    source.on("cursor", charts.point),
    watchTheme(charts.themeChanged),
    ...(comparing ? [comparing.on("changed", charts.later)] : []),
  ];
  charts.later();
  return () => {
    for (const end of ends) end();
    sizes.disconnect();
    charts.stop();
    charts.root.remove();
  };
}
