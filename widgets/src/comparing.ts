// Which branch the present one is compared with, and where the two part.

import { Listeners } from "./listeners.ts";
import type { Source } from "./source.ts";

export class Comparing extends Listeners<"changed"> {
  other: number | null = null; // a branch
  sameUntil: number | null = null; // seconds
  text = "";

  constructor(private readonly source: Source) {
    super();
  }

  /** Compares the present branch with another one; null ends it. The answer is an error in words, or "". */
  async compare(other: number | null): Promise<string> {
    this.other = other;
    [this.sameUntil, this.text] = [null, ""];
    this.say("changed");
    if (other === null) return "";
    const reply = this.source.canControl ? await this.source.send("compare", { with: other }) : {};
    if (this.other !== other) return "";
    this.sameUntil = typeof reply["same_until_s"] === "number" ? reply["same_until_s"] : null;
    this.text = typeof reply["text"] === "string" ? reply["text"] : "";
    this.say("changed");
    return reply.error ?? "";
  }
}
