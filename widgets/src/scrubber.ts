// The strip of virtual time: where the run is, how far it has been, where it was disturbed. Dragging it goes there; before
// that, it says how long going back takes, because going back means computing again.

import { clock, roughly } from "./clock.ts";
import { element } from "./dom.ts";
import type { LabState } from "./lab_types.ts";
import { roundStep } from "./time_scale.ts";
import { cut } from "./words.ts";

const KEY_STEPS = 50; // of the arrow keys from one end to the other
const SETTLE_MS = 350; // after the last key

export interface ScrubberEvents {
  seek(time: number): void;
  point(time: number | null): void;
}

export class Scrubber {
  readonly element: HTMLElement;
  end = 1e-3; // of the strip, seconds
  private readonly past = element("div", { class: "sdw-elapsed" });
  private readonly been = element("div", { class: "sdw-been" });
  private readonly ghost = element("div", { class: "sdw-ghost", hidden: true });
  private readonly ticks = element("div", { class: "sdw-ticks" });
  private readonly bubble = element("div", { class: "sdw-bubble", hidden: true });
  private readonly track: HTMLElement;
  private state: LabState | null = null;
  private farthest = 0;
  private target: number | null = null; // where a drag or the keys would go
  private timer = 0;
  private shownTicks = "";

  constructor(private readonly events: ScrubberEvents, private readonly isEnabled: boolean) {
    const role = { role: "slider", tabindex: 0, "aria-label": "Virtual time", "aria-valuemin": 0, "aria-disabled": String(!isEnabled) };
    this.track = element("div", { class: "sdw-strip", ...role }, this.been, this.past, this.ticks, this.ghost);
    this.element = element("div", { class: "sdw-scrubber" }, this.track, this.bubble);
    this.track.addEventListener("pointerdown", (event) => this.onDown(event));
    this.track.addEventListener("pointermove", (event) => this.onMove(event));
    this.track.addEventListener("pointerup", () => this.settle());
    this.track.addEventListener("pointercancel", () => this.forget());
    this.track.addEventListener("pointerleave", () => this.target === null && this.hide());
    this.track.addEventListener("keydown", (event) => this.onKey(event));
    this.track.addEventListener("blur", () => this.forget());
  }

  /** Shows a state; `last_s` is the end of what is known of the branch. */
  show(state: LabState, last_s: number): void {
    if (this.state?.branch !== state.branch) this.farthest = 0;
    this.state = state;
    const isOver = state.state === "finished" || state.state === "failed";
    this.farthest = Math.max(isOver ? 0 : this.farthest, state.now_s, last_s); // of a run that is over, nothing is left
    const wanted = Math.max(this.farthest * 1.04, state.pace * 4, 1e-9);
    if (isOver) this.end = Math.max(this.farthest, 1e-9);
    else if (this.farthest > this.end || wanted < this.end / 3) this.end = roundStep(wanted);
    this.past.style.width = this.percent(state.now_s);
    this.been.style.width = this.percent(this.farthest);
    const [value, unit] = clock(state.now_s, this.end);
    this.track.setAttribute("aria-valuemax", String(this.end));
    this.track.setAttribute("aria-valuenow", String(state.now_s));
    this.track.setAttribute("aria-valuetext", `${value} ${unit}`);
    this.showTicks(state);
  }

  private showTicks({ commands, faults }: LabState): void {
    const marks = [
      ...commands.map(({ at_s, fault }) => ({ at: at_s, text: `${fault.kind} that you asked for` })),
      ...faults.flatMap(({ fired_s, description }) => (fired_s === null ? [] : [{ at: fired_s, text: description }])),
    ];
    const key = `${this.end} ${marks.map(({ at, text }) => `${at}${text}`).join()}`;
    if (key === this.shownTicks) return;
    this.shownTicks = key;
    this.ticks.replaceChildren(...marks.map(({ at, text }) => element("i", { style: `left:${this.percent(at)}`, title: cut(text) })));
  }

  private percent(time: number): string {
    return `${Math.min(100, (time / this.end) * 100).toFixed(3)}%`;
  }

  private timeAt(event: PointerEvent): number {
    const { left, width } = this.track.getBoundingClientRect();
    return (Math.min(Math.max(event.clientX - left, 0), width) / Math.max(width, 1)) * this.end;
  }

  private onDown(event: PointerEvent): void {
    if (event.button !== 0 || !this.isEnabled) return;
    this.track.setPointerCapture(event.pointerId);
    this.aim(this.timeAt(event));
  }

  private onMove(event: PointerEvent): void {
    const time = this.timeAt(event);
    if (this.target !== null) this.aim(time);
    else this.preview(time);
    this.events.point(time);
  }

  private onKey(event: KeyboardEvent): void {
    const now = this.target ?? this.state?.now_s ?? 0;
    const step = this.end / KEY_STEPS;
    const wanted: Readonly<Record<string, number>> = { ArrowLeft: now - step, ArrowDown: now - step, ArrowRight: now + step, ArrowUp: now + step, Home: 0, End: this.farthest };
    if (event.key === "Escape") this.forget();
    else if (event.key === "Enter" && this.target !== null) this.settle();
    else if (Object.hasOwn(wanted, event.key) && this.isEnabled) {
      this.aim(Math.min(Math.max(wanted[event.key], 0), this.end));
      this.timer = window.setTimeout(() => this.settle(), SETTLE_MS);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private aim(time: number): void {
    clearTimeout(this.timer);
    this.target = time;
    this.preview(time);
  }

  /** Says what going to a moment would mean. */
  private preview(time: number): void {
    const { now_s, rewind_real_s } = this.state ?? { now_s: 0, rewind_real_s: 0 };
    const [value, unit] = clock(time, this.end);
    const back = time < now_s;
    const cost = back ? ` · back, computed again ${roughly(rewind_real_s * (now_s > 0 ? time / now_s : 0)).replace("about", "in about")}` : " · runs on to here";
    this.bubble.replaceChildren(element("strong", {}, `${value} ${unit}`), this.isEnabled ? cost : "");
    this.ghost.hidden = this.bubble.hidden = false;
    this.ghost.style.left = this.percent(time);
    const room = this.element.clientWidth - this.bubble.offsetWidth;
    this.bubble.style.left = `${Math.min(Math.max((time / this.end) * this.track.clientWidth - this.bubble.offsetWidth / 2, 0), Math.max(room, 0))}px`;
  }

  private settle(): void {
    const { target } = this;
    if (target !== null) this.events.seek(target);
    this.forget();
  }

  private forget(): void {
    clearTimeout(this.timer);
    this.target = null;
    this.hide();
  }

  private hide(): void {
    this.ghost.hidden = this.bubble.hidden = true;
    this.events.point(null);
  }
}
