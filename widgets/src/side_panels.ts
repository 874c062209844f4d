// What stands beside the pictures as text: the queue of closures, what the program has printed, and the commands in Python.

import { copyButton } from "./copying.ts";
import { element } from "./dom.ts";
import { formatCount } from "./format.ts";
import type { LabState } from "./lab_types.ts";
import { cut } from "./words.ts";

const MOST_LOG = 500; // lines
const NEAR_END = 8; // pixels from the end of a list, up to which it follows what comes

/** The closures that run, each with its worker, and how many wait; those that are known by number as a row of boxes. */
export class QueuePanel {
  readonly element = element("div", { class: "sdw-queue" });
  private shown = "";

  update({ queue }: LabState): void {
    const key = JSON.stringify(queue);
    if (key === this.shown) return;
    this.shown = key;
    if (!queue) return this.element.replaceChildren(element("p", { class: "sdw-quiet" }, "This program has no queue of closures."));
    const running = queue.closures.filter(({ worker }) => worker !== null);
    const waiting = queue.closures.filter(({ worker }) => worker === null);
    const boxes = waiting.map(({ number }) => element("li", {}, `#${number}`));
    if (boxes.length && queue.waiting > boxes.length) boxes.push(element("li", { class: "sdw-rest" }, `and ${queue.waiting - boxes.length} more`));
    this.element.replaceChildren(
      heading(formatCount(queue.in_flight, "closure"), queue.in_flight === 1 ? "runs" : "run"),
      element("ul", { class: "sdw-running" }, ...running.map(({ number, worker }) => element("li", {}, element("strong", {}, `#${number}`), element("span", { title: cut(worker ?? "") }, cut(worker ?? "", 40))))),
      heading(formatCount(queue.waiting, "closure"), queue.waiting === 1 ? "waits" : "wait"),
      ...(boxes.length ? [element("ol", { class: "sdw-waiting" }, ...boxes)] : []),
    );
  }
}

/** What the program has printed. */
export class OutputPanel {
  readonly element = element("div", { class: "sdw-output" });
  private readonly text = element("pre", { tabindex: 0, "aria-label": "Output of the program" });
  private shown: string | null = null;

  constructor() {
    this.element.append(this.text);
  }

  update({ output }: LabState): void {
    if (output === this.shown) return;
    this.shown = output;
    const follows = isAtEnd(this.text);
    this.text.textContent = output || "The program has printed nothing yet.";
    this.text.classList.toggle("sdw-quiet", output === "");
    if (follows) this.text.scrollTop = this.text.scrollHeight;
  }
}

/** Every click as its line of Python; each can be copied, and all of them. */
export class LogPanel {
  readonly element = element("div", { class: "sdw-log" });
  private readonly list = element("ol", { tabindex: 0, "aria-label": "Commands" });
  private readonly none = element("p", { class: "sdw-quiet" }, "Whatever you do here appears as a line of Python.");
  private readonly all: HTMLElement;
  private lines: readonly string[] = [];

  constructor() {
    this.all = element("div", { class: "sdw-log-all" }, element("span", { class: "sdw-quiet" }, "all lines"), copyButton("Copy all lines", () => this.lines.join("\n")));
    this.element.append(this.none, this.list, this.all);
  }

  update({ log }: LabState): void {
    const lines = log.slice(-MOST_LOG);
    if (lines.length === this.lines.length && lines.every((line, index) => line === this.lines[index])) return;
    const follows = isAtEnd(this.list);
    const isLonger = this.lines.length > 0 && this.lines.every((line, index) => line === lines[index]);
    const added = (isLonger ? lines.slice(this.lines.length) : lines).map(logLine);
    if (isLonger) this.list.append(...added);
    else this.list.replaceChildren(...added);
    this.lines = lines;
    this.none.hidden = lines.length > 0;
    this.all.hidden = lines.length === 0;
    if (follows) this.list.scrollTop = this.list.scrollHeight;
  }
}

function logLine(line: string): HTMLElement {
  return element("li", {}, element("code", { title: cut(line) }, cut(line, 2000)), copyButton("Copy this line", () => line));
}

function heading(count: string, what: string): HTMLElement {
  return element("h5", {}, count, element("span", {}, ` ${what}`));
}

function isAtEnd(list: HTMLElement): boolean {
  return list.scrollTop + list.clientHeight >= list.scrollHeight - NEAR_END;
}
