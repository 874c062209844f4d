// The branches of a run as tabs, and which of them is set beside the present one. With a single branch there is nothing to say.

import { Asking } from "./asking.ts";
import type { Comparing } from "./comparing.ts";
import { clock } from "./clock.ts";
import { element } from "./dom.ts";
import type { Branch, LabState } from "./lab_types.ts";
import type { Source } from "./source.ts";
import { cut, write } from "./words.ts";

class BranchesBar {
  readonly root = element("div", { class: "sdw sdw-branches", hidden: true });
  private readonly asking: Asking;
  private readonly tabs = element("div", { class: "sdw-branch-tabs", role: "group", "aria-label": "Branches" });
  private readonly select = element("select", { "aria-label": "Compare with" });
  private readonly text = element("p", { class: "sdw-comparison", hidden: true });
  private shown = "";

  constructor(
    private readonly source: Source,
    private readonly comparing: Comparing,
  ) {
    this.asking = new Asking(source);
    const label = element("label", { class: "sdw-compare" }, element("span", { class: "sdw-quiet" }, "side by side with"), this.select);
    this.root.append(element("div", { class: "sdw-branch-row" }, this.tabs, label), this.asking.note, this.text);
    this.select.addEventListener("change", () => void this.compare(this.select.value === "" ? null : Number(this.select.value)));
  }

  readonly update = (): void => {
    const state = this.source.state();
    const { branches, branch } = state;
    this.root.hidden = branches.length < 2;
    const run = Math.max(...branches.map(({ now_s }) => now_s), 1e-9);
    const key = JSON.stringify([branches.map((one) => [one.number, one.name, one.commands, one.state, clock(one.now_s, run)]), branch, this.comparing.other]);
    if (key === this.shown) return;
    this.shown = key;
    const { other } = this.comparing;
    if (other !== null && (other === branch || !branches.some(({ number }) => number === other))) void this.compare(null);
    this.tabs.replaceChildren(...branches.map((one) => this.tab(one, state, run)));
    const options = branches.filter(({ number }) => number !== branch).map(({ number, name }) => element("option", { value: number, selected: number === this.comparing.other }, cut(name, 40)));
    this.select.replaceChildren(element("option", { value: "" }, "nothing"), ...options);
  };

  readonly say = (): void => {
    write(this.text, this.comparing.text);
    this.text.hidden = this.comparing.text === "";
    this.update();
  };

  private async compare(other: number | null): Promise<void> {
    this.asking.say(await this.comparing.compare(other));
  }

  private tab(one: Branch, { branch, branches }: LabState, run: number): HTMLElement {
    const [value, unit] = clock(one.now_s, run);
    const from = branches.find(({ number }) => number === one.forked_from);
    const origin = from && one.forked_at_s !== null ? `, from ${from.name} at ${clock(one.forked_at_s, run).join(" ")}` : "";
    const name = element("strong", {}, cut(one.name, 40));
    const button = element("button", { type: "button", "aria-pressed": String(one.number === branch), title: cut(`${one.name}: ${one.state}${origin}`) }, name, element("span", {}, `${value} ${unit}`));
    button.disabled = one.number !== branch && !this.source.canShow(one.number);
    button.addEventListener("click", () => one.number !== branch && void this.asking.ask("select_branch", { branch: one.number }, button));
    const close = element("button", { type: "button", class: "sdw-plain", title: `Close ${cut(one.name, 60)}`, "aria-label": `Close ${cut(one.name, 60)}` }, "✕");
    close.addEventListener("click", () => void this.asking.ask("close_branch", { branch: one.number }, close));
    return element("span", { class: "sdw-branch" }, button, ...(this.source.canControl ? [close] : []));
  }
}

/** Shows the branches of a source in an element; returns what ends it. */
export function mountBranches(root: HTMLElement, source: Source, comparing: Comparing): () => void {
  const bar = new BranchesBar(source, comparing);
  root.append(bar.root);
  const ends = [source.on("state", bar.update), comparing.on("changed", bar.say)];
  bar.update();
  return () => {
    for (const end of ends) end();
    bar.root.remove();
  };
}
