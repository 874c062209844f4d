// Asking the kernel for something on behalf of a control: while it works the control says so, and what was refused is
// written beside it until something succeeds.

import { element } from "./dom.ts";
import type { Reply, Verb } from "./lab_types.ts";
import type { Source } from "./source.ts";
import { cut } from "./words.ts";

const SLOW_MS = 4000;
const SLOW = "The kernel has not answered yet. It may be computing; if it was restarted, run the cell again.";
const MOST_ERROR = 1200; // characters
const ONCE: ReadonlySet<Verb> = new Set(["inject", "plan", "fork"]); // a second click, before the first is answered, would break a second thing

export class Asking {
  /** Where refusals are written; the view puts it near its controls. */
  readonly note = element("p", { class: "sdw-error", role: "alert", hidden: true });

  constructor(private readonly source: Source) {}

  async ask(verb: Verb, args: Readonly<Record<string, unknown>> = {}, control?: HTMLElement): Promise<Reply> {
    if (ONCE.has(verb) && control?.getAttribute("aria-busy") === "true") return { error: "" };
    control?.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => this.say(SLOW), SLOW_MS);
    const reply = await this.source.send(verb, args, (why) => {
      clearTimeout(slow);
      this.say(why);
    });
    clearTimeout(slow);
    control?.removeAttribute("aria-busy");
    this.say(reply.error ?? "");
    return reply;
  }

  /** Writes an error, or with "" removes it. */
  say(error: string): void {
    this.note.hidden = error === "";
    this.note.textContent = cut(error, MOST_ERROR);
  }
}
