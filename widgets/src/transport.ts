// The bar that runs a cluster: play and pause, steps, pace, going to a moment, forks; and the time in large figures.

import { Asking } from "./asking.ts";
import { clock, nextPace, paceInWords, secondsOf, whyNoMoment } from "./clock.ts";
import { element } from "./dom.ts";
import { formatCount } from "./format.ts";
import { icon, setIcon, type IconName } from "./icons.ts";
import type { RunState, Verb } from "./lab_types.ts";
import { Scrubber } from "./scrubber.ts";
import type { Source } from "./source.ts";
import { write } from "./words.ts";

const WORDS: Readonly<Record<RunState, string>> = { paused: "paused", playing: "playing", finished: "finished", failed: "failed", closed: "closed" };
export const KEYS: readonly (readonly [string, string])[] = [
  ["space", "play or pause"],
  [".", "the next event"],
  ["s", "the next step"],
  ["c", "the next closure"],
  ["[  ]", "slower, faster"],
  ["r", "back to the beginning"],
  ["f", "fork here, or at the moment that you point at"],
  ["?", "these keys"],
];

const CLOSURE_TITLE = "To the end of the next closure ( c )";

class Transport {
  readonly root = element("div", { class: "sdw sdw-transport", role: "group", "aria-label": "Run" });
  private readonly asking: Asking;
  private readonly scrubber: Scrubber;
  private readonly figure = element("output", { class: "sdw-figure" });
  private readonly unit = element("span", { class: "sdw-figure-unit" });
  private readonly word = element("span", { class: "sdw-run-state" });
  private readonly counts = element("span", { class: "sdw-counts" });
  private readonly message = element("p", { class: "sdw-run-message", hidden: true });
  private readonly pace = element("span", { class: "sdw-pace" });
  private readonly playIcon = icon("play");
  private readonly buttons: Readonly<Record<"play" | "event" | "step" | "closure" | "rewind" | "end" | "fork" | "slower" | "faster" | "help", HTMLButtonElement>>;
  private readonly moment = element("input", { type: "text", class: "sdw-moment", inputmode: "decimal", size: 7, placeholder: "go to s", title: "A moment in virtual seconds; Enter goes there", "aria-label": "Go to a virtual second" });
  private readonly keys = element("p", { class: "sdw-keys", hidden: true });

  constructor(private readonly source: Source) {
    this.asking = new Asking(source);
    this.scrubber = new Scrubber({ seek: (time) => void this.ask("seek", { t_s: time }), point: (time) => source.pointAt(time) }, source.canControl);
    this.buttons = {
      play: button("", "Play (space)", () => this.playOrPause()),
      event: button("event", "To the next event ( . )", () => this.step("events")),
      step: button("step", "To the end of the next step ( s )", () => this.step("steps")),
      closure: button("closure", CLOSURE_TITLE, () => this.step("closures")),
      rewind: button("Rewind", "Back to the beginning ( r )", () => this.rewind(), "rewind"),
      end: button("To the end", "Runs on until nothing is left to do", () => void this.ask("advance", {}, this.buttons.end)),
      fork: button("Fork", "A second run that is the same up to here ( f )", () => this.fork(), "fork"),
      slower: button("−", "Slower ( [ )", () => this.changePace(-1)),
      faster: button("+", "Faster ( ] )", () => this.changePace(1)),
      help: button("?", "Keys ( ? )", () => (this.keys.hidden = !this.keys.hidden)),
    };
    this.buttons.play.classList.add("sdw-play");
    this.buttons.play.append(this.playIcon);
    this.moment.hidden = !this.source.canControl;
    this.moment.addEventListener("keydown", (event) => event.key === "Enter" && this.goToMoment());
    this.moment.addEventListener("input", () => this.moment.removeAttribute("aria-invalid"));
    this.assemble();
  }

  readonly update = (): void => {
    const { source, buttons } = this;
    const state = source.state();
    this.scrubber.show(state, source.trace(state.branch).header.last_s);
    const [value, unit] = clock(state.now_s, this.scrubber.end);
    this.figure.textContent = value;
    this.unit.textContent = unit;
    const isPlaying = state.state === "playing";
    const over = state.state === "finished" || state.state === "failed" || state.state === "closed";
    this.root.dataset["state"] = state.state;
    write(this.word, WORDS[state.state] ?? state.state);
    write(this.counts, `${formatCount(state.events, "event")} · ${formatCount(state.steps, "step")} · ${formatCount(state.closures, "closure")}`);
    write(this.message, state.message);
    this.message.hidden = state.message === "";
    setIcon(this.playIcon, isPlaying ? "pause" : "play");
    const label = isPlaying ? "Pause (space)" : "Play (space)";
    buttons.play.title = source.canControl ? label : source.whyNot;
    buttons.play.setAttribute("aria-label", label);
    this.pace.textContent = paceInWords(state.pace);
    for (const name of ["play", "event", "step", "closure", "end"] as const) buttons[name].disabled = !source.canControl || over;
    const hasNone = state.steps > 0 && state.closures === 0 && state.queue === null; // its steps belong to no closure
    buttons.closure.disabled ||= hasNone;
    buttons.closure.title = hasNone ? "The steps of this program belong to no closure" : CLOSURE_TITLE;
    this.moment.disabled = !source.canControl || state.state === "closed";
    buttons.rewind.disabled = !source.canControl || state.now_s === 0 || state.state === "closed";
    buttons.fork.disabled = !source.canControl || state.state === "closed";
    this.point();
    buttons.slower.disabled = buttons.faster.disabled = !source.canControl || state.state === "closed";
  };

  /** What a key does anywhere in the Lab; whether it was one of ours. */
  readonly onKey = (event: KeyboardEvent): void => {
    const target = event.composedPath()[0] as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select")) return;
    const isButton = target.closest("button, [role=tab], [role=button], summary") !== null;
    const table: Readonly<Record<string, () => void>> = {
      " ": () => this.playOrPause(),
      ".": () => this.step("events"),
      s: () => this.step("steps"),
      c: () => this.step("closures"),
      "[": () => this.changePace(-1),
      "]": () => this.changePace(1),
      r: () => this.rewind(),
      f: () => this.fork(),
      "?": () => (this.keys.hidden = !this.keys.hidden),
    };
    if (!Object.hasOwn(table, event.key) || (event.key === " " && isButton && target !== this.buttons.play)) return;
    if (event.key !== "?" && !this.source.canControl) return;
    event.preventDefault();
    event.stopPropagation();
    table[event.key]();
  };

  private ask(verb: Verb, args: Readonly<Record<string, unknown>> = {}, control?: HTMLElement): Promise<unknown> {
    return this.asking.ask(verb, args, control);
  }

  private playOrPause(): void {
    const { state, pace } = this.source.state();
    void (state === "playing" ? this.ask("pause", {}, this.buttons.play) : this.ask("play", { pace }, this.buttons.play));
  }

  private step(unit: "events" | "steps" | "closures"): void {
    const control = { events: this.buttons.event, steps: this.buttons.step, closures: this.buttons.closure }[unit];
    if (control.disabled) return; // a key was pressed
    void this.ask("step", { [unit]: 1 }, control);
  }

  private rewind(): void {
    void this.ask("seek", { t_s: 0 }, this.buttons.rewind);
  }

  /** Goes to the second that was typed; what is no moment is said, and stays to be corrected; nothing typed is no mistake. */
  private goToMoment(): void {
    const text = this.moment.value.trim();
    const t_s = secondsOf(text);
    const why = t_s !== null || text === "" ? "" : `"${text}" is no moment of virtual time. ${whyNoMoment(text)}`;
    this.moment.setAttribute("aria-invalid", String(why !== ""));
    this.asking.say(why);
    if (t_s === null) return;
    this.moment.value = "";
    void this.ask("seek", { t_s }, this.moment);
  }

  private fork(): void {
    void this.ask("fork", { t_s: this.forkTime(), without: [] }, this.buttons.fork);
  }

  /** Where another run parts from this one: at the moment that is pointed at or was clicked, else at the present. */
  private forkTime(): number {
    const now = this.source.state().now_s;
    const cursor = this.source.cursor();
    return cursor !== null && cursor >= 0 && cursor < now ? cursor : now;
  }

  /** Says on the button where it forks. */
  readonly point = (): void => {
    const time = this.forkTime();
    const isNow = time === this.source.state().now_s;
    const title = isNow ? "A second run that is the same up to here ( f )" : `A second run that is the same up to ${clock(time, this.scrubber.end).join(" ")} ( f )`;
    if (this.source.canControl && this.buttons.fork.title !== title) this.buttons.fork.title = title;
  };

  private changePace(step: 1 | -1): void {
    void this.ask("set_pace", { pace: nextPace(this.source.state().pace, step) }, step > 0 ? this.buttons.faster : this.buttons.slower);
  }

  private assemble(): void {
    const { buttons } = this;
    const steps = element("div", { class: "sdw-group", role: "group", "aria-label": "One" }, element("span", { class: "sdw-group-name" }, icon("step")), buttons.event, buttons.step, buttons.closure);
    const pace = element("div", { class: "sdw-group", role: "group", "aria-label": "Pace" }, buttons.slower, this.pace, buttons.faster);
    const display = element("div", { class: "sdw-display" }, element("div", {}, this.figure, this.unit, this.moment), element("div", { class: "sdw-display-below" }, this.word, this.counts));
    const right = element("div", { class: "sdw-transport-right" }, steps, pace, buttons.rewind, buttons.end, buttons.fork, buttons.help);
    this.keys.append(...KEYS.flatMap(([key, what]) => [element("span", { class: "sdw-key" }, element("kbd", {}, key), ` ${what}`)]));
    this.root.append(element("div", { class: "sdw-transport-row" }, buttons.play, display, right), this.scrubber.element, this.keys, this.message, this.asking.note);
    if (!this.source.canControl) this.root.append(element("p", { class: "sdw-note" }, this.source.whyNot));
  }
}

function button(text: string, label: string, act: () => void, sign?: IconName): HTMLButtonElement {
  const made = element("button", { type: "button", title: label, "aria-label": text.length > 1 ? false : label }, ...(sign ? [icon(sign)] : []), ...(text ? [element("span", {}, text)] : []));
  made.addEventListener("click", act);
  return made;
}

/** Shows the bar in an element, and takes its keys from `keys` (default: that element); returns what ends it. */
export function mountTransport(root: HTMLElement, source: Source, keys: HTMLElement = root): () => void {
  const transport = new Transport(source);
  root.append(transport.root);
  keys.addEventListener("keydown", transport.onKey);
  const ends = [source.on("state", transport.update), source.on("rows", transport.update), source.on("cursor", transport.point)];
  transport.update();
  return () => {
    keys.removeEventListener("keydown", transport.onKey);
    for (const end of ends) end();
    transport.root.remove();
  };
}
