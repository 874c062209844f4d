// The state of a timeline (what is in view, what is chosen) and what changes it. Drawing is in the painters.
//
// It is mounted into any element, on any source of a trace: a widget's model is one. Every change ends in one request for
// a frame, so that however many events arrive, at most one picture is drawn per frame. Nothing moves by itself: there is
// no animation that reduced motion would have to switch off.

import { drawAxis, drawOverview } from "./axis_painter.ts";
import { fanCentre, fanReach } from "./fan.ts";
import { hitTest, spanAt, type Hit } from "./hit_test.ts";
import { taskOf } from "./labels.ts";
import { layOutMarks } from "./marks.ts";
import { Selection } from "./selection.ts";
import { readColors, watchTheme, type Colors } from "./theme.ts";
import type { View } from "./time_scale.ts";
import { TimeWindow } from "./time_window.ts";
import { buildFrame, describeRange, refreshFrame, type Frame } from "./timeline_frame.ts";
import { listen, type Commands } from "./timeline_input.ts";
import { Lines } from "./timeline_lines.ts";
import { laneHeight, TimelinePainter, type Scene } from "./timeline_painter.ts";
import type { TimelineSource } from "./timeline_source.ts";
import { describe, spoken } from "./tooltip.ts";
import type { TraceData } from "./trace_data.ts";
import { nextEvent, nextSpan } from "./walk.ts";

const SAME_PIXELS = 3; // up to which two clicks are on the same place

class Timeline implements Commands {
  readonly frame: Frame;
  private data: TraceData;
  private readonly painter = new TimelinePainter();
  private readonly lines = new Lines();
  private events: Uint32Array;
  private down: Uint32Array;
  private colors: Colors | null = null;
  private readonly time: TimeWindow;
  private chosen: Selection;
  private request = 0;
  private isStale = true; // the plot; else what is over it at most
  private scene: Scene | null = null;
  private markedLane: Element | null = null;
  private pointer: readonly [number, number] | null = null;

  constructor(private readonly source: TimelineSource) {
    this.data = source.data();
    this.chosen = new Selection(this.data);
    this.time = new TimeWindow(source, () => this.viewChanged());
    this.events = this.data.eventRows();
    this.down = this.data.downRows();
    this.frame = buildFrame(this.data, source.live?.goesOn);
    this.frame.lines.append(this.lines.element);
    this.enableButtons();
  }

  // --- what the user can do ------------------------------------------------------------------------------------

  /** Zooms around a place of the plot; without one, around what the keyboard chose, or else the middle. */
  zoomAt(factor: number, x?: number): void {
    const { start, end } = this.view;
    const chosen = this.chosen.position?.time ?? start;
    const centre = x !== undefined ? this.timeAt(x) : chosen > start && chosen < end ? chosen : (start + end) / 2;
    this.time.zoom(factor, centre);
  }

  panBy(pixels: number): void {
    this.time.pan(pixels / this.width);
  }

  fitAll(): void {
    this.time.showAll();
  }

  follow(): void {
    this.time.follow();
  }

  goTo(fraction: number): void {
    this.time.goTo(fraction);
  }

  pointAt(x: number, y: number): void {
    this.pointer = [x, y];
    y += this.top;
    this.source.live?.pointAt(this.timeAt(x));
    const member = this.chosen.memberUnder(x, y, this.laneHeight);
    if (member) return this.setHit(member, x, y);
    const lane = Math.floor(y / this.laneHeight);
    const inLane = lane >= 0 && lane < this.data.header.lanes.length;
    this.setHit(inLane ? hitTest(this.data, lane, this.view, this.width, x) : null, x, y);
  }

  pickAt(x: number, y: number): void {
    const { lanes } = this.data.header;
    if (lanes.length === 0) return;
    const lane = (this.chosen.lane = Math.min(Math.max(Math.floor((y + this.top) / this.laneHeight), 0), lanes.length - 1));
    const { hit } = this.chosen;
    if (!hit) this.chosen.position = { lane, time: this.timeAt(x), span: -1, instant: -1 };
    this.source.live?.choose(hit);
    this.source.live?.chooseLane(lane);
    this.pinAt(x);
    this.draw();
  }

  pointAway(): void {
    this.pointer = null;
    this.source.live?.pointAt(null);
    this.setHit(null, 0, 0);
  }

  chooseLane(step: number): void {
    const last = this.data.header.lanes.length - 1;
    const { lane } = this.chosen;
    this.chosen.chooseLane(lane < 0 ? (step > 0 ? 0 : last) : Math.min(Math.max(lane + step, 0), last));
    this.frame.tooltip.hide();
    this.source.live?.chooseLane(this.chosen.lane);
    this.frame.spoken.textContent = this.data.header.lanes[this.chosen.lane] ?? "";
    this.keepLaneVisible();
    this.draw();
  }

  walkSpans(step: 1 | -1): void {
    if (this.data.header.lanes.length === 0) return;
    const { spans } = this.data;
    const lane = (this.chosen.lane = Math.max(this.chosen.lane, 0));
    const row = nextSpan(this.data, lane, this.chosen.position, step, this.view.start);
    if (row < 0) return;
    this.time.reveal(spans.start[row], spans.duration[row]);
    const found = spanAt(this.data, lane, spans.start[row], 0);
    const outer = found?.sort === "span" && found.outer !== row ? found.outer : -1;
    this.announce({ sort: "span", lane, row, outer });
  }

  walkEvents(step: 1 | -1): void {
    const row = nextEvent(this.data, this.events, this.chosen.position, step, this.view.start);
    if (row < 0) return;
    const lane = (this.chosen.lane = this.data.instants.laneOf(row));
    this.time.reveal(this.data.instants.start[row], 0);
    this.keepLaneVisible();
    const mark = layOutMarks(this.data, lane, this.view, this.width).find(({ rows }) => rows.includes(row));
    this.announce({ sort: "instants", lane, row, rows: mark?.rows ?? [row] });
  }

  clear(): void {
    this.chosen.clear();
    this.source.live?.choose(null);
    this.source.live?.pin(null);
    this.pointAway();
    this.draw();
  }

  // --- state and drawing -----------------------------------------------------------------------------------------

  get width(): number {
    return Math.max(this.frame.plot.clientWidth, 1);
  }

  /** Pixels of lanes that are scrolled away: the plot is as high as what is seen. */
  private get top(): number {
    return Math.max(this.frame.scroll.scrollTop, 0);
  }

  get laneHeight(): number {
    return laneHeight(this.data.header.lanes.length);
  }

  /** Takes over the view that the source asks for. */
  readonly followSource = (): void => {
    if (this.time.followSource()) this.draw();
  };

  /** Takes over rows and the present. What was under the pointer is looked for again, since rows may have moved. */
  readonly grow = (): void => {
    const data = this.source.data();
    if (data !== this.data) this.chosen = new Selection(data);
    this.data = data;
    [this.events, this.down] = [data.eventRows(), data.downRows()];
    this.time.grow();
    this.chosen.rowsMoved();
    this.frame.tooltip.hide();
    refreshFrame(this.frame, data);
    this.enableButtons();
    if (this.pointer) this.pointAt(...this.pointer);
    this.draw();
  };

  /** Takes over what was chosen elsewhere: rows from Python, a task in another view. */
  readonly followChosen = (): void => {
    const lane = this.source.live?.lane() ?? -1;
    if (lane >= 0 && taskOf(this.data.header.lanes[this.chosen.lane]) !== this.data.header.lanes[lane]) {
      this.chosen.lane = lane;
      this.keepLaneVisible();
    }
    this.draw();
  };

  /** A click keeps its moment; another one on the same place gives it up. */
  private pinAt(x: number): void {
    const { live } = this.source;
    const before = live?.pinned() ?? null;
    const isSame = before !== null && Math.abs(before - this.timeAt(x)) * this.width < SAME_PIXELS * this.time.length;
    live?.pin(isSame ? null : this.timeAt(x));
  }

  readonly moveLines = (): void => {
    if (this.source.live) this.lines.show(this.source.live.lines(), this.view);
  };

  readonly themeChanged = (): void => {
    this.colors = null;
    this.draw();
  };

  readonly draw = (): void => {
    this.isStale = true;
    this.drawOver();
  };

  /** Draws what the pointer is on, and the plot only where something else asks for that. */
  private drawOver(): void {
    if (this.request === 0) this.request = requestAnimationFrame(this.paint);
  }

  stop(): void {
    cancelAnimationFrame(this.request);
    this.time.stop();
  }

  private readonly paint = (): void => {
    this.request = 0;
    const { frame } = this;
    if (frame.plot.clientWidth === 0) return; // not on the page yet; the size observer calls again
    const { hit, fan } = this.chosen;
    if (this.isStale || !this.scene) this.scene = this.paintPlot();
    this.painter.drawOver(frame.over, { ...this.scene, hit, fan, chosen: this.source.live?.chosen() ?? [] });
    this.isStale = false;
  };

  /** Draws all but what the pointer is on; returns what that was. */
  private paintPlot(): Scene {
    const { frame, data, view } = this;
    const colors = (this.colors ??= readColors(frame.root));
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { lane, hit, fan } = this.chosen;
    const { top, laneHeight } = this;
    const height = Math.min(frame.scroll.clientHeight, data.header.lanes.length * laneHeight);
    frame.plot.style.height = `${height}px`;
    const { version } = data;
    const scene = { top, height, data, version, view, colors, ratio, lane, hit, fan, chosen: [], down: this.down, open: this.source.live?.open() ?? [], width: this.width, laneHeight };
    this.painter.draw(frame.plot, scene);
    const base = drawAxis(frame.axis, view, colors, ratio);
    frame.corner.textContent = base || "virtual time";
    drawOverview(frame.overview, data, this.events, this.time.bounds, view, colors, ratio);
    this.markLane(lane);
    describeRange(frame, view, this.time.bounds, data.header, this.time.follows);
    this.moveLines();
    return scene;
  }

  private markLane(lane: number): void {
    const name = this.frame.lanes.children[lane] ?? null;
    if (name === this.markedLane) return;
    this.markedLane?.classList.remove("sdw-current");
    name?.classList.add("sdw-current");
    this.markedLane = name;
  }

  private enableButtons(): void {
    this.frame.buttons.previous.disabled = this.frame.buttons.next.disabled = this.events.length === 0;
  }

  private get view(): View {
    return this.time.view;
  }

  private viewChanged(): void {
    this.chosen.unmark();
    this.frame.tooltip.hide();
    this.draw();
  }

  private setHit(hit: Hit | null, x: number, y: number): void {
    this.chosen.choose(hit, this.view, this.width);
    if (hit) this.showTooltip(hit, x, y);
    else this.frame.tooltip.hide();
    this.drawOver();
  }

  private announce(hit: Hit): void {
    this.chosen.choose(hit, this.view, this.width);
    this.frame.spoken.textContent = spoken(describe(this.data, hit));
    const x = this.chosen.xOf(hit, this.view, this.width);
    this.showTooltip(hit, Math.min(Math.max(x, 0), this.width), (hit.lane + 0.8) * this.laneHeight);
    this.draw();
  }

  /** Shows the card at a place given in the plot's own coordinates; beside an unfolded group, never on it. */
  private showTooltip(hit: Hit, x: number, y: number): void {
    const { fan } = this.chosen;
    if (fan) [x, y] = [fanCentre(fan), (hit.lane + 0.8) * this.laneHeight];
    const plot = this.frame.plot.getBoundingClientRect();
    const root = this.frame.root.getBoundingClientRect();
    this.frame.tooltip.show(describe(this.data, hit), x + plot.left - root.left, y - this.top + plot.top - root.top, fan ? fanReach(fan) : 0);
  }

  private keepLaneVisible(): void {
    const { scroll } = this.frame;
    const top = this.chosen.lane * this.laneHeight;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    const bottom = top + this.laneHeight - scroll.clientHeight;
    if (bottom > scroll.scrollTop) scroll.scrollTop = bottom;
  }

  private timeAt(x: number): number {
    return this.view.start + (x / this.width) * (this.view.end - this.view.start);
  }
}

/** Shows a timeline in an element; returns what ends it. */
export function mountTimeline(root: HTMLElement, source: TimelineSource): () => void {
  const timeline = new Timeline(source);
  root.replaceChildren(timeline.frame.root);
  const silence = listen(timeline.frame, timeline);
  const sizes = new ResizeObserver(timeline.draw);
  sizes.observe(timeline.frame.plot);
  timeline.frame.scroll.addEventListener("scroll", timeline.draw);
  const unwatchTheme = watchTheme(timeline.themeChanged);
  const { live } = source;
  const unwatch = [source.watchView(timeline.followSource), ...(live ? [live.watchData(timeline.grow), live.watchLines(timeline.moveLines), live.watchChosen(timeline.followChosen)] : [])];
  timeline.draw();
  return () => {
    for (const end of unwatch) end();
    unwatchTheme();
    sizes.disconnect();
    silence();
    timeline.stop();
  };
}
