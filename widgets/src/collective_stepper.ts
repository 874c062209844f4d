// sw.CollectiveStepper: which step is shown, which rank is followed, and what changes that. Drawing is in the painter.
//
// Going one step on lets small copies of the chunks travel along the arrows; every other change, and every change for
// readers who want less motion, shows its result at once.

import { element } from "./dom.ts";
import type { Model, RenderContext } from "./model.ts";
import { StepperData, type StepperHeader } from "./stepper_data.ts";
import { buildFrame, setButton, type Frame } from "./stepper_frame.ts";
import { listen, type Commands } from "./stepper_input.ts";
import { layOut, placeAt, type Layout } from "./stepper_layout.ts";
import { paint, tokens, type Scene } from "./stepper_painter.ts";
import { aboutRank, facts, progress } from "./stepper_text.ts";

const TRAVEL_MS = 650;
const PAUSE_MS = 800; // between the steps of a play
const WHOLE_PLAY_MS = 30_000; // about, for many steps
const LEAST_STEP_MS = 150;
const SAVE_AFTER_MS = 150;
const HINT = "Click a rank to follow it; point at a chunk to see what it holds.";

class CollectiveStepper implements Commands {
  readonly frame: Frame;
  private readonly data: StepperData;
  private layout: Layout | null = null;
  private moment: number;
  private rank = -1;
  private playing = false;
  private timer = 0;
  private request = 0; // of the next frame of a journey
  private save = 0;

  constructor(private readonly model: Model) {
    this.data = new StepperData(model.get("header") as StepperHeader, model.get("data") as DataView);
    this.frame = buildFrame(this.data);
    this.moment = this.wanted();
  }

  // --- what the user can do ------------------------------------------------------------------------------------

  goTo(moment: number): void {
    this.pause();
    this.show(moment);
  }

  goBy(steps: number): void {
    this.goTo(Math.min(Math.max(this.moment + steps, 0), this.data.last));
  }

  goToEnd(): void {
    this.goTo(this.data.last);
  }

  playOrPause(): void {
    if (this.playing) return this.pause();
    this.playing = true;
    this.tell();
    if (this.moment === this.data.last) this.show(0);
    this.timer = window.setTimeout(this.playOn, this.moment === 0 ? this.stepMs / 3 : 0);
  }

  chooseRank(step: 1 | -1): void {
    const { num_ranks } = this.data.header;
    this.follow(this.rank < 0 ? (step > 0 ? 0 : num_ranks - 1) : Math.min(Math.max(this.rank + step, 0), num_ranks - 1));
  }

  pickAt(x: number, y: number): void {
    const place = this.layout && placeAt(this.layout, this.data.header, x, y);
    this.follow(place && place.rank !== this.rank ? place.rank : -1);
  }

  pointAt(x: number, y: number): void {
    const place = this.layout && placeAt(this.layout, this.data.header, x, y);
    if (!place || place.chunk < 0) return this.pointAway();
    const { matrix, tooltip } = this.frame;
    const left = x - matrix.scrollLeft + matrix.offsetLeft;
    tooltip.show(facts(this.data, this.moment, place.rank, place.chunk), left, y + matrix.offsetTop);
  }

  pointAway(): void {
    this.frame.tooltip.hide();
  }

  clear(): void {
    this.pointAway();
    this.follow(-1);
  }

  // --- state and drawing -----------------------------------------------------------------------------------------

  /** Takes over the step that Python asks for. */
  readonly followModel = (): void => {
    if (this.wanted() === this.moment) return;
    this.pause();
    this.show(this.wanted());
  };

  /** Draws the matrix as wide as there is room for. */
  readonly resize = (): void => {
    if (this.frame.root.clientWidth === 0) return;
    this.layout = layOut(this.data.header, this.frame.root.clientWidth - 6);
    this.draw();
  };

  stop(): void {
    this.pause();
    cancelAnimationFrame(this.request);
    clearTimeout(this.save);
  }

  private get stepMs(): number {
    return Math.min(TRAVEL_MS + PAUSE_MS, Math.max(WHOLE_PLAY_MS / Math.max(this.data.last, 1), LEAST_STEP_MS));
  }

  private readonly playOn = (): void => {
    if (this.moment < this.data.last) this.show(this.moment + 1);
    if (this.moment === this.data.last) this.pause();
    else this.timer = window.setTimeout(this.playOn, this.stepMs);
  };

  private pause(): void {
    clearTimeout(this.timer);
    this.playing = false;
    this.tell();
  }

  private show(moment: number): void {
    const travels = moment === this.moment + 1 && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.moment = moment;
    this.pointAway();
    if (travels && this.layout) this.travel(Math.min(TRAVEL_MS, this.stepMs * 0.6));
    else this.draw();
    clearTimeout(this.save);
    this.save = window.setTimeout(() => {
      this.model.set("step", this.moment);
      this.model.save_changes();
    }, SAVE_AFTER_MS);
  }

  private follow(rank: number): void {
    this.rank = rank;
    this.draw();
  }

  private draw(): void {
    cancelAnimationFrame(this.request);
    if (this.layout) this.frame.matrix.replaceChildren(paint(this.scene(this.layout, this.moment)));
    this.tell();
  }

  /** Shows what was there before the step, lets the chunks travel, then shows what there is after it. */
  private travel(travelMs: number): void {
    cancelAnimationFrame(this.request);
    const scene = this.scene(this.layout as Layout, this.moment - 1);
    const picture = paint(scene);
    const moving = tokens(scene);
    picture.append(moving.node);
    this.frame.matrix.replaceChildren(picture);
    this.tell();
    const start = performance.now();
    const next = (now: number): void => {
      const part = (now - start) / travelMs;
      if (part >= 1) return this.draw();
      moving.move(ease(Math.max(part, 0)));
      this.request = requestAnimationFrame(next);
    };
    this.request = requestAnimationFrame(next);
  }

  private scene(layout: Layout, shown: number): Scene {
    return { data: this.data, layout, shown, moment: this.moment, rank: this.rank };
  }

  /** Brings all words, the slider and the buttons up to date. */
  private tell(): void {
    const { frame, data, moment } = this;
    const { first, back, play, next, last } = frame.buttons;
    const said = moment === 0 ? "Before the first step:" : `Step ${moment} of ${data.last}:`;
    frame.sentence.setAttribute("aria-live", this.playing ? "off" : "polite"); // nobody can listen as fast as it plays
    replaceText(frame.sentence, said, data.header.steps[moment].text);
    frame.slider.value = String(moment);
    frame.slider.setAttribute("aria-valuetext", said.slice(0, -1));
    first.disabled = back.disabled = moment === 0;
    next.disabled = last.disabled = moment === data.last;
    play.disabled = data.last === 0;
    setButton(play, this.playing ? "pause" : "play", this.playing ? "Pause" : "Play");
    progress(data, moment).forEach(({ value, part }, index) => {
      frame.meters[index].value.textContent = value;
      frame.meters[index].bar.style.width = `${part * 100}%`;
    });
    frame.rank.textContent = this.rank < 0 ? HINT : aboutRank(data, moment, this.rank);
    frame.rank.classList.toggle("sdw-hint", this.rank < 0);
    frame.matrix.setAttribute("aria-label", `${said} ${data.header.steps[moment].text}`);
    frame.root.dataset["step"] = String(moment);
  }

  private wanted(): number {
    const step = Number(this.model.get("step") ?? 0);
    return Math.min(Math.max(Math.round(step) || 0, 0), this.data.last);
  }
}

/** Sets a bold beginning and a text, only if they changed: a screen reader would read them again. */
function replaceText(target: HTMLElement, bold: string, text: string): void {
  if (target.textContent === `${bold} ${text}`) return;
  target.replaceChildren(element("strong", {}, bold), ` ${text}`);
}

function ease(part: number): number {
  return part < 0.5 ? 2 * part * part : 1 - 2 * (1 - part) ** 2;
}

function render({ model, el }: RenderContext): () => void {
  const stepper = new CollectiveStepper(model);
  el.replaceChildren(stepper.frame.root);
  const silence = listen(stepper.frame, stepper);
  const sizes = new ResizeObserver(stepper.resize);
  sizes.observe(stepper.frame.root);
  model.on("change:step", stepper.followModel);
  stepper.resize();
  return () => {
    model.off("change:step", stepper.followModel);
    sizes.disconnect();
    silence();
    stepper.stop();
  };
}

export default { render };
