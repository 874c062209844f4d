// Which stretch of time a timeline shows, and why: where the reader has gone, the whole run, or a window that follows the
// present of a run that goes on. What the reader chooses is saved with the source, a little later and once.

import { afterGrowth, following, liveBounds } from "./live_view.ts";
import { centreOn, fit, inside, pan, zoom, type View } from "./time_scale.ts";
import type { TimelineSource } from "./timeline_source.ts";

const SAVE_AFTER_MS = 250;
const MARGIN = 0.05; // of the view, that is kept beside what is revealed

export class TimeWindow {
  view: View;
  bounds: View;
  follows: boolean; // the present
  private save = 0;

  constructor(
    private readonly source: TimelineSource,
    private readonly changed: () => void,
  ) {
    this.bounds = this.wholeRun();
    this.follows = this.isUsual();
    this.view = this.follows ? this.window() : this.wanted();
  }

  get length(): number {
    return this.view.end - this.view.start;
  }

  get isWhole(): boolean {
    return this.view.start === this.bounds.start && this.view.end === this.bounds.end;
  }

  /** Zooms around a moment; a window that follows the present only becomes longer or shorter. */
  zoom(factor: number, centre: number): void {
    const wanted = zoom(this.view, factor, centre, this.bounds);
    if (this.follows) this.source.live?.setSpan(wanted.end - wanted.start);
    this.set(this.follows ? this.window() : wanted);
  }

  /** Moves by a part of the view. */
  pan(part: number): void {
    this.follows = false;
    this.set(pan(this.view, part * this.length, this.bounds));
  }

  showAll(): void {
    this.follows = false;
    this.set(this.bounds);
  }

  follow(): void {
    this.follows = this.source.live?.goesOn === true;
    this.source.live?.setSpan(null);
    if (this.follows) this.set(this.window());
  }

  /** Goes to a part of the run. */
  goTo(fraction: number): void {
    this.follows = false;
    const time = this.bounds.start + fraction * (this.bounds.end - this.bounds.start);
    this.set(centreOn(this.view, time, this.bounds));
  }

  /** Moves the view, and widens it where needed, so that a stretch of time is well inside. */
  reveal(start: number, duration: number): void {
    if (this.isWhole) return;
    this.follows = false;
    const margin = this.length * MARGIN;
    const wide = { start: start - duration * 0.2, end: start + duration * 1.2 };
    if (duration > this.length * 0.9) this.set(inside(wide, this.bounds));
    else if (start < this.view.start + margin || start + duration > this.view.end - margin) {
      this.set(centreOn(this.view, start + duration / 2, this.bounds));
    }
  }

  /** Takes over the view that the source asks for; whether that is another one. */
  followSource(): boolean {
    this.follows = this.isUsual();
    const wanted = this.follows ? this.window() : this.wanted();
    if (wanted.start === this.view.start && wanted.end === this.view.end) return false;
    this.view = wanted;
    return true;
  }

  /** Takes over that the run has grown. */
  grow(): void {
    const { isWhole } = this;
    this.bounds = this.wholeRun();
    this.view = this.follows ? this.window() : afterGrowth(this.view, isWhole, this.bounds);
  }

  stop(): void {
    clearTimeout(this.save);
  }

  private set(view: View): void {
    this.view = view;
    this.changed();
    clearTimeout(this.save);
    this.save = window.setTimeout(() => {
      const isUsual = this.source.live?.goesOn ? this.follows : this.isWhole;
      this.source.saveView(isUsual ? [] : [this.view.start, this.view.end]);
    }, SAVE_AFTER_MS);
  }

  /** Whether the source asks for no view, while there is a present to follow. */
  private isUsual(): boolean {
    return this.source.live?.goesOn === true && this.source.view().length === 0;
  }

  private wholeRun(): View {
    const { live } = this.source;
    const { first_s, last_s } = this.source.data().header;
    if (!live) return fit(first_s, last_s);
    return live.goesOn ? liveBounds(live.last(), live.now(), live.span()) : fit(first_s, live.last());
  }

  /** The window that follows the present. */
  private window(): View {
    const { live } = this.source;
    return live ? following(live.now(), live.span()) : this.bounds;
  }

  private wanted(): View {
    const wanted = this.source.view();
    if (wanted.length !== 2 || !(wanted[1] > wanted[0])) return this.bounds;
    return inside({ start: wanted[0], end: wanted[1] }, this.bounds);
  }
}
