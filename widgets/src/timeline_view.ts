// The state of a timeline (what is in view, what is chosen) and what changes it. Drawing is in the painters.
//
// It is mounted into any element, on any source of a trace: a widget's model is one. Every change ends in one request for
// a frame, so that however many events arrive, at most one picture is drawn per frame. Nothing moves by itself: there is
// no animation that reduced motion would have to switch off.

import { drawAxis, drawOverview } from "./axis_painter.ts";
import { element } from "./dom.ts";
import { fanCentre, fanReach } from "./fan.ts";
import { formatDuration, formatMoment } from "./format.ts";
import { eventsInOrder, hitTest, spanAt, type Hit } from "./hit_test.ts";
import { layOutMarks } from "./marks.ts";
import { Selection } from "./selection.ts";
import { downRows } from "./span_details.ts";
import { readColors, watchTheme, type Colors } from "./theme.ts";
import { centreOn, fit, inside, pan, zoom, type View } from "./time_scale.ts";
import { buildFrame, type Frame } from "./timeline_frame.ts";
import { listen, type Commands } from "./timeline_input.ts";
import { laneHeight, TimelinePainter } from "./timeline_painter.ts";
import { describe, spoken } from "./tooltip.ts";
import { decode, laneOf, type TraceData, type TraceHeader } from "./trace_data.ts";
import { nextEvent, nextSpan } from "./walk.ts";

/** Where a timeline has its trace from, and who keeps its view. */
export interface TimelineSource {
  readonly header: TraceHeader;
  readonly bytes: DataView;
  /** The wanted view, [start, end] in seconds; [] for the whole run. */
  view(): readonly number[];
  saveView(view: readonly number[]): void;
  /** Calls `changed` when somebody else wants another view; returns what ends that. */
  watchView(changed: () => void): () => void;
}

const SAVE_AFTER_MS = 250;

class Timeline implements Commands {
  readonly frame: Frame;
  private readonly data: TraceData;
  private readonly bounds: View;
  private readonly painter = new TimelinePainter();
  private readonly events: Uint32Array;
  private readonly down: Uint32Array;
  private colors: Colors | null = null;
  private view: View;
  private readonly chosen: Selection;
  private request = 0;
  private save = 0;

  constructor(private readonly source: TimelineSource) {
    this.data = decode(source.header, source.bytes);
    this.chosen = new Selection(this.data);
    const { first_s, last_s } = this.data.header;
    this.bounds = fit(first_s, last_s);
    this.view = this.wantedView();
    this.events = eventsInOrder(this.data);
    this.down = downRows(this.data);
    this.frame = buildFrame(this.data);
    this.frame.buttons.previous.disabled = this.frame.buttons.next.disabled = this.events.length === 0;
  }

  // --- what the user can do ------------------------------------------------------------------------------------

  /** Zooms around a place of the plot; without one, around what the keyboard chose, or else the middle. */
  zoomAt(factor: number, x?: number): void {
    const { start, end } = this.view;
    const chosen = this.chosen.position?.time ?? start;
    const centre = x !== undefined ? this.timeAt(x) : chosen > start && chosen < end ? chosen : (start + end) / 2;
    this.setView(zoom(this.view, factor, centre, this.bounds));
  }

  panBy(pixels: number): void {
    this.setView(pan(this.view, (pixels / this.width) * (this.view.end - this.view.start), this.bounds));
  }

  fitAll(): void {
    this.setView(this.bounds);
  }

  goTo(fraction: number): void {
    const time = this.bounds.start + fraction * (this.bounds.end - this.bounds.start);
    this.setView(centreOn(this.view, time, this.bounds));
  }

  pointAt(x: number, y: number): void {
    const member = this.chosen.memberUnder(x, y, this.laneHeight);
    if (member) return this.setHit(member, x, y);
    const lane = Math.floor(y / this.laneHeight);
    const inLane = lane >= 0 && lane < this.data.header.lanes.length;
    this.setHit(inLane ? hitTest(this.data, lane, this.view, this.width, x) : null, x, y);
  }

  pickAt(x: number, y: number): void {
    const { lanes } = this.data.header;
    if (lanes.length === 0) return;
    const lane = (this.chosen.lane = Math.min(Math.max(Math.floor(y / this.laneHeight), 0), lanes.length - 1));
    if (!this.chosen.hit) this.chosen.position = { lane, time: this.timeAt(x), span: -1, instant: -1 };
    this.draw();
  }

  pointAway(): void {
    this.setHit(null, 0, 0);
  }

  chooseLane(step: number): void {
    const last = this.data.header.lanes.length - 1;
    const { lane } = this.chosen;
    this.chosen.chooseLane(lane < 0 ? (step > 0 ? 0 : last) : Math.min(Math.max(lane + step, 0), last));
    this.frame.tooltip.hide();
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
    this.reveal(spans.start[row], spans.duration[row]);
    const found = spanAt(this.data, lane, spans.start[row], 0);
    const outer = found?.sort === "span" && found.outer !== row ? found.outer : -1;
    this.announce({ sort: "span", lane, row, outer });
  }

  walkEvents(step: 1 | -1): void {
    const row = nextEvent(this.data, this.events, this.chosen.position, step, this.view.start);
    if (row < 0) return;
    const lane = (this.chosen.lane = laneOf(this.data.instants, row));
    this.reveal(this.data.instants.start[row], 0);
    this.keepLaneVisible();
    const mark = layOutMarks(this.data, lane, this.view, this.width).find(({ rows }) => rows.includes(row));
    this.announce({ sort: "instants", lane, row, rows: mark?.rows ?? [row] });
  }

  clear(): void {
    this.chosen.clear();
    this.pointAway();
  }

  // --- state and drawing -----------------------------------------------------------------------------------------

  get width(): number {
    return Math.max(this.frame.plot.clientWidth, 1);
  }

  get laneHeight(): number {
    return laneHeight(this.data.header.lanes.length);
  }

  /** Takes over the view that the source asks for. */
  readonly followSource = (): void => {
    const wanted = this.wantedView();
    if (wanted.start === this.view.start && wanted.end === this.view.end) return;
    this.view = wanted;
    this.draw();
  };

  readonly themeChanged = (): void => {
    this.colors = null;
    this.draw();
  };

  readonly draw = (): void => {
    if (this.request === 0) this.request = requestAnimationFrame(this.paint);
  };

  stop(): void {
    cancelAnimationFrame(this.request);
    clearTimeout(this.save);
  }

  private readonly paint = (): void => {
    this.request = 0;
    const { frame, data, view } = this;
    if (frame.plot.clientWidth === 0) return; // not on the page yet; the size observer calls again
    const colors = (this.colors ??= readColors(frame.root));
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { lane, hit, fan } = this.chosen;
    const scene = { data, view, colors, ratio, lane, hit, fan, down: this.down, width: this.width, laneHeight: this.laneHeight };
    this.painter.draw(frame.plot, scene);
    const base = drawAxis(frame.axis, view, colors, ratio);
    frame.corner.textContent = base || "virtual time";
    drawOverview(frame.overview, data, this.events, this.bounds, view, colors, ratio);
    frame.lanes.childNodes.forEach((node, index) =>
      (node as HTMLElement).classList.toggle("sdw-current", index === lane),
    );
    this.describeRange();
  };

  private describeRange(): void {
    const { start, end } = this.view;
    const whole = this.isWhole();
    const { first_s, last_s } = this.data.header;
    const shown = element("strong", {}, formatDuration(whole ? last_s - first_s : end - start));
    const first = formatMoment(round(Math.max(start, 0), end - start));
    const from = whole ? " of virtual time, the whole run" : ` from ${first}`;
    this.frame.range.replaceChildren(shown, from);
    this.frame.root.dataset["view"] = `${start},${end}`;
    this.frame.buttons.fit.disabled = this.frame.buttons.out.disabled = whole;
  }

  private setView(view: View): void {
    this.view = view;
    this.chosen.unmark();
    this.frame.tooltip.hide();
    this.draw();
    clearTimeout(this.save);
    this.save = window.setTimeout(() => {
      this.source.saveView(this.isWhole() ? [] : [this.view.start, this.view.end]);
    }, SAVE_AFTER_MS);
  }

  private isWhole(): boolean {
    return this.view.start === this.bounds.start && this.view.end === this.bounds.end;
  }

  private setHit(hit: Hit | null, x: number, y: number): void {
    this.chosen.choose(hit, this.view, this.width);
    if (hit) this.showTooltip(hit, x, y);
    else this.frame.tooltip.hide();
    this.draw();
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
    this.frame.tooltip.show(describe(this.data, hit), x + plot.left - root.left, y + plot.top - root.top, fan ? fanReach(fan) : 0);
  }

  /** Moves the view, and widens it where needed, so that a stretch of time is well inside. */
  private reveal(start: number, duration: number): void {
    if (this.isWhole()) return;
    const length = this.view.end - this.view.start;
    const margin = length * 0.05;
    const wide = { start: start - duration * 0.2, end: start + duration * 1.2 };
    if (duration > length * 0.9) this.setView(inside(wide, this.bounds));
    else if (start < this.view.start + margin || start + duration > this.view.end - margin) {
      this.setView(centreOn(this.view, start + duration / 2, this.bounds));
    }
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

  private wantedView(): View {
    const wanted = this.source.view();
    if (wanted.length !== 2 || !(wanted[1] > wanted[0])) return this.bounds;
    return inside({ start: wanted[0], end: wanted[1] }, this.bounds);
  }
}


/** A moment with no more digits than a view of this length shows. */
function round(seconds: number, length: number): number {
  const digits = Math.min(9, Math.max(0, Math.ceil(3 - Math.log10(length))));
  return Number(seconds.toFixed(digits));
}

/** Shows a timeline in an element; returns what ends it. */
export function mountTimeline(root: HTMLElement, source: TimelineSource): () => void {
  const timeline = new Timeline(source);
  root.replaceChildren(timeline.frame.root);
  const silence = listen(timeline.frame, timeline);
  const sizes = new ResizeObserver(timeline.draw);
  sizes.observe(timeline.frame.plot);
  const unwatchTheme = watchTheme(timeline.themeChanged);
  const unwatchView = source.watchView(timeline.followSource);
  timeline.draw();
  return () => {
    unwatchView();
    unwatchTheme();
    sizes.disconnect();
    silence();
    timeline.stop();
  };
}
