// sw.Timeline: state (what is in view, what is chosen) and what changes it. Drawing is in the painters.
//
// Every change ends in one request for a frame, so that however many events arrive, at most one picture is drawn per
// frame. Nothing moves by itself: there is no animation that reduced motion would have to switch off.

import { drawAxis, drawOverview } from "./axis_painter.ts";
import { element } from "./dom.ts";
import { formatDuration, formatMoment } from "./format.ts";
import { eventsInOrder, hitTest, nextSpan, spanAt, type Hit } from "./hit_test.ts";
import type { Model, RenderContext } from "./model.ts";
import { downRows } from "./span_details.ts";
import { readColors, watchTheme, type Colors } from "./theme.ts";
import { centreOn, fit, inside, pan, zoom, type View } from "./time_scale.ts";
import { buildFrame, type Frame } from "./timeline_frame.ts";
import { listen, type Commands } from "./timeline_input.ts";
import { laneHeight, TimelinePainter } from "./timeline_painter.ts";
import { describe, spoken } from "./tooltip.ts";
import { decode, laneOf, type TraceData, type TraceHeader } from "./trace_data.ts";

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
  private lane = -1;
  private hit: Hit | null = null;
  private anchor: number | null = null; // the moment that the keyboard chose last
  private request = 0;
  private save = 0;
  private event = -1; // index in `events` that "next event" starts from

  constructor(private readonly model: Model) {
    this.data = decode(model.get("header") as TraceHeader, asDataView(model.get("data")));
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
    const chosen = this.anchor !== null && this.anchor > start && this.anchor < end ? this.anchor : (start + end) / 2;
    this.setView(zoom(this.view, factor, x === undefined ? chosen : this.timeAt(x), this.bounds));
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
    const lane = Math.floor(y / this.laneHeight);
    const inLane = lane >= 0 && lane < this.data.header.lanes.length;
    this.setHit(inLane ? hitTest(this.data, lane, this.view, this.width, x) : null, x, y);
  }

  pickLane(y: number): void {
    this.lane = Math.min(Math.max(Math.floor(y / this.laneHeight), 0), this.data.header.lanes.length - 1);
    this.draw();
  }

  pointAway(): void {
    this.setHit(null, 0, 0);
  }

  chooseLane(step: number): void {
    const last = this.data.header.lanes.length - 1;
    this.lane = this.lane < 0 ? (step > 0 ? 0 : last) : Math.min(Math.max(this.lane + step, 0), last);
    this.hit = null;
    this.frame.tooltip.hide();
    this.frame.spoken.textContent = this.data.header.lanes[this.lane] ?? "";
    this.keepLaneVisible();
    this.draw();
  }

  walkSpans(step: 1 | -1): void {
    if (this.data.header.lanes.length === 0) return;
    this.lane = Math.max(this.lane, 0);
    const from = this.hit?.sort === "span" && this.hit.lane === this.lane ? this.hit.row : -1;
    const row = nextSpan(this.data, this.lane, from, step, this.view.start);
    if (row < 0) return;
    this.reveal(this.data.spans.start[row], this.data.spans.duration[row]);
    const found = spanAt(this.data, this.lane, this.data.spans.start[row], 0);
    const outer = found?.sort === "span" && found.outer !== row ? found.outer : -1;
    this.announce({ sort: "span", lane: this.lane, row, outer });
  }

  walkEvents(step: 1 | -1): void {
    if (this.events.length === 0) return;
    const fallback = step > 0 ? 0 : this.events.length - 1;
    this.event = this.event < 0 ? fallback : (this.event + step + this.events.length) % this.events.length;
    const row = this.events[this.event];
    this.lane = laneOf(this.data.instants, row);
    this.reveal(this.data.instants.start[row], 0);
    this.keepLaneVisible();
    this.announce({ sort: "instants", lane: this.lane, row, rows: [row] });
  }

  clear(): void {
    this.lane = this.event = -1;
    this.anchor = null;
    this.pointAway();
  }

  // --- state and drawing -----------------------------------------------------------------------------------------

  get width(): number {
    return Math.max(this.frame.plot.clientWidth, 1);
  }

  get laneHeight(): number {
    return laneHeight(this.data.header.lanes.length);
  }

  /** Takes over the view that Python asks for; an empty list asks for the whole run. */
  readonly followModel = (): void => {
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
    const { lane, hit, down } = this;
    const scene = { data, view, colors, ratio, lane, hit, down, width: this.width, laneHeight: this.laneHeight };
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
    this.frame.tooltip.hide();
    this.draw();
    clearTimeout(this.save);
    this.save = window.setTimeout(() => {
      this.model.set("view_s", this.isWhole() ? [] : [this.view.start, this.view.end]);
      this.model.save_changes();
    }, SAVE_AFTER_MS);
  }

  private isWhole(): boolean {
    return this.view.start === this.bounds.start && this.view.end === this.bounds.end;
  }

  private setHit(hit: Hit | null, x: number, y: number): void {
    this.hit = hit;
    if (hit) this.showTooltip(hit, x, y);
    else this.frame.tooltip.hide();
    this.draw();
  }

  private announce(hit: Hit): void {
    this.hit = hit;
    this.frame.spoken.textContent = spoken(describe(this.data, hit));
    const table = hit.sort === "span" ? this.data.spans : this.data.instants;
    const x = ((table.start[hit.row] - this.view.start) / (this.view.end - this.view.start)) * this.width;
    this.showTooltip(hit, Math.min(Math.max(x, 0), this.width), (hit.lane + 0.8) * this.laneHeight);
    this.anchor = table.start[hit.row];
    this.draw();
  }

  /** Shows the card at a place given in the plot's own coordinates. */
  private showTooltip(hit: Hit, x: number, y: number): void {
    const plot = this.frame.plot.getBoundingClientRect();
    const root = this.frame.root.getBoundingClientRect();
    this.frame.tooltip.show(describe(this.data, hit), x + plot.left - root.left, y + plot.top - root.top);
  }

  /** Moves the view, and widens it where needed, so that a stretch of time is well inside. */
  private reveal(start: number, duration: number): void {
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
    const top = this.lane * this.laneHeight;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    const bottom = top + this.laneHeight - scroll.clientHeight;
    if (bottom > scroll.scrollTop) scroll.scrollTop = bottom;
  }

  private timeAt(x: number): number {
    return this.view.start + (x / this.width) * (this.view.end - this.view.start);
  }

  private wantedView(): View {
    const wanted = (this.model.get("view_s") ?? []) as readonly number[];
    if (wanted.length !== 2 || !(wanted[1] > wanted[0])) return this.bounds;
    return inside({ start: wanted[0], end: wanted[1] }, this.bounds);
  }
}


/** A moment with no more digits than a view of this length shows. */
function round(seconds: number, length: number): number {
  const digits = Math.min(9, Math.max(0, Math.ceil(3 - Math.log10(length))));
  return Number(seconds.toFixed(digits));
}

function asDataView(value: unknown): DataView {
  return value instanceof DataView ? value : new DataView(new ArrayBuffer(0));
}

function render({ model, el }: RenderContext): () => void {
  const timeline = new Timeline(model);
  el.replaceChildren(timeline.frame.root);
  const silence = listen(timeline.frame, timeline);
  const sizes = new ResizeObserver(timeline.draw);
  sizes.observe(timeline.frame.plot);
  const unwatch = watchTheme(timeline.themeChanged);
  model.on("change:view_s", timeline.followModel);
  timeline.draw();
  return () => {
    model.off("change:view_s", timeline.followModel);
    unwatch();
    sizes.disconnect();
    silence();
    timeline.stop();
  };
}

export default { render };
