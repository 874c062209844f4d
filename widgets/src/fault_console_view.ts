// The console of faults: choose what is to go wrong, when and for whom; see what is pending, has begun, has healed; keep
// a whole plan as text.

import { Asking } from "./asking.ts";
import { copyButton } from "./copying.ts";
import { element } from "./dom.ts";
import { FaultForm } from "./fault_form.ts";
import { formatCount, formatEvent } from "./format.ts";
import type { Fault, PlannedFault } from "./lab_types.ts";
import type { Source } from "./source.ts";
import { asRecovery, recoveryTable } from "./recovery_table.ts";
import { cut, sentence, write } from "./words.ts";

const STATUS: Readonly<Record<PlannedFault["status"], readonly [string, string]>> = {
  pending: ["○", "pending"],
  fired: ["●", "has begun"],
  healed: ["✓", "has ended"],
  never: ["–", "never happened"],
};

class FaultConsole {
  readonly root = element("div", { class: "sdw sdw-console", role: "group", "aria-label": "Faults", "data-lm-suppress-shortcuts": "true" });
  private readonly asking: Asking;
  private readonly kinds = element("select", { "aria-label": "Kind of fault" });
  private readonly says = element("p", { class: "sdw-quiet sdw-says" });
  private readonly place = element("div");
  private readonly list = element("ul", { class: "sdw-faults", "aria-label": "Faults of this run" });
  private readonly text = element("textarea", { rows: 5, spellcheck: "false", "aria-label": "Faults as JSON" });
  private form: FaultForm | null = null;
  private readonly without = new Set<number>(); // commands that the next fork leaves out
  private readonly several = element("button", { type: "button", class: "sdw-go", title: "Fork: the same run up to here, without what is checked" });
  private readonly severalNote: Asking;
  private shown = "";
  private branch = -1;

  constructor(private readonly source: Source) {
    this.asking = new Asking(source);
    const { faults } = source.layout;
    this.kinds.append(...faults.map(({ kind }, index) => element("option", { value: index }, sentence(kind))));
    this.kinds.addEventListener("change", () => this.showForm());
    if (source.canControl && faults.length) this.root.append(...this.controls());
    else if (source.canControl) this.root.append(element("p", { class: "sdw-quiet" }, "This cluster knows no faults."));
    this.severalNote = new Asking(source);
    this.several.addEventListener("click", () => void this.forkWithout());
    this.root.append(this.list);
    if (source.canControl) this.root.append(element("div", { class: "sdw-console-act" }, this.several), this.severalNote.note, this.asText());
    this.showForm();
  }

  readonly update = (): void => {
    const { faults, branch } = this.source.state();
    const key = JSON.stringify([faults, branch]);
    if (key === this.shown) return;
    this.shown = key;
    if (branch !== this.branch) this.without.clear();
    this.branch = branch;
    for (const command of this.without) if (command >= faults.length) this.without.delete(command);
    this.showSeveral();
    this.list.replaceChildren(...(faults.length ? faults.map((fault, index) => this.line(fault, index)) : [element("li", { class: "sdw-quiet" }, "Nothing has gone wrong yet.")]));
  };

  /** One fault, with what else can be done with it: a run without it, and what it has cost. */
  private line(fault: PlannedFault, command: number): HTMLElement {
    const line = faultLine(fault, this.source.state().commands[command]?.at_s ?? null);
    if (!this.source.canControl || this.source.state().commands.length <= command) return line;
    const note = new Asking(this.source);
    const without = element("button", { type: "button", class: "sdw-plain", title: "Fork: the same run up to here, without this fault" }, "What if not?");
    without.addEventListener("click", () => void note.ask("fork", { t_s: this.source.state().now_s, without: [command] }, without));
    const cost = element("button", { type: "button", class: "sdw-plain", title: "Compares with the exact run without this fault" }, "What did it cost?");
    cost.addEventListener("click", async () => {
      const { recovery } = await note.ask("recover", { command }, cost);
      const found = asRecovery(recovery);
      line.querySelector("table")?.remove();
      if (found) line.append(recoveryTable(found));
    });
    const acts = [without, ...(fault.status === "pending" ? [] : [cost])];
    if (this.source.state().commands.length > 1) line.prepend(this.box(fault, command));
    line.append(element("div", { class: "sdw-fault-acts" }, ...acts, note.note));
    return line;
  }

  /** Whether the next fork of several leaves a command out. */
  private box(fault: PlannedFault, command: number): HTMLElement {
    const box = element("input", { type: "checkbox", class: "sdw-leave-out", title: "Leave it out of a fork", "aria-label": `Leave out: ${cut(shortly(fault), 80)}` });
    box.checked = this.without.has(command);
    box.addEventListener("change", () => {
      if (box.checked) this.without.add(command);
      else this.without.delete(command);
      this.showSeveral();
    });
    return box;
  }

  private showSeveral(): void {
    const count = this.without.size;
    this.several.hidden = count === 0;
    this.several.textContent = `What if not ${count === 1 ? "this one" : `these ${count}`}?`;
  }

  private async forkWithout(): Promise<void> {
    const without = [...this.without].sort((a, b) => a - b);
    const { error } = await this.severalNote.ask("fork", { t_s: this.source.state().now_s, without }, this.several);
    if (error !== undefined) return;
    this.without.clear();
    this.showSeveral();
    this.shown = "";
    this.update();
  }

  private controls(): HTMLElement[] {
    const inject = element("button", { type: "button", class: "sdw-go" }, "Inject");
    inject.addEventListener("click", () => {
      const fault = this.form?.read();
      if (fault) void this.asking.ask("inject", { fault }, inject);
    });
    const head = element("div", { class: "sdw-console-head" }, this.kinds, this.presets());
    return [head, this.says, this.place, element("div", { class: "sdw-console-act" }, inject), this.asking.note];
  }

  private presets(): HTMLElement {
    const { presets } = this.source.layout;
    const select = element("select", { "aria-label": "Presets" }, element("option", { value: "" }, "presets …"));
    select.append(...presets.map(({ name }, index) => element("option", { value: index }, cut(sentence(name), 60))));
    select.hidden = presets.length === 0;
    select.addEventListener("change", () => {
      const preset = presets[Number(select.value)];
      if (select.value !== "") void this.asking.ask("plan", { faults: preset.faults }, select);
      select.value = "";
    });
    return select;
  }

  private showForm(): void {
    const kind = this.source.layout.faults[this.kinds.selectedIndex];
    if (!kind) return;
    write(this.says, kind.says ?? "");
    this.form = new FaultForm(this.source.layout, kind, this.source.layout.triggers);
    this.place.replaceChildren(this.form.element);
    this.asking.say("");
  }

  /** The faults of this run as text: to keep, to change, to use again. */
  private asText(): HTMLElement {
    const load = element("button", { type: "button" }, "Inject all of these");
    const take = element("button", { type: "button" }, "Write down this run's");
    const note = new Asking(this.source);
    take.addEventListener("click", () => {
      this.text.value = JSON.stringify(this.source.state().faults.map(({ fault }) => fault), null, 1);
      note.say("");
    });
    load.addEventListener("click", () => {
      const read = readFaults(this.text.value);
      if ("problem" in read) return note.say(read.problem);
      void note.ask("plan", { faults: read.faults }, load);
    });
    const acts = element("div", { class: "sdw-console-act" }, take, load, copyButton("Copy the text", () => this.text.value));
    return element("details", { class: "sdw-as-text" }, element("summary", {}, "as text"), this.text, acts, note.note);
  }
}

/** A list of faults in JSON, or what is wrong with it. */
export function readFaults(text: string): { readonly faults: readonly Fault[] } | { readonly problem: string } {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (error) {
    return { problem: `This is no JSON: ${error instanceof Error ? error.message : error}.` };
  }
  const items: readonly unknown[] = Array.isArray(read) ? read : [read];
  const wrong = items.findIndex((item) => typeof item !== "object" || item === null || typeof (item as Fault).kind !== "string");
  if (wrong >= 0) return { problem: `Number ${wrong + 1} is no fault: it has no "kind". Write for example {"kind": "crash", "task": "worker:1"}.` };
  return { faults: items as Fault[] };
}

/** A fault in a few words; whom it hits is what people look for. */
export function shortly({ description, fault }: PlannedFault): string {
  if (typeof fault.kind !== "string") return description;
  const [task, a, b, source, target] = ["task", "a", "b", "source", "target"].map((name) => names(fault[name]));
  if (task) return `${sentence(fault.kind)} of ${task}`;
  if (a && b) return `${sentence(fault.kind)} between ${a} and ${b}`;
  return source && target ? `${sentence(fault.kind)} from ${source} to ${target}` : description;
}

/** One task, or several, as text; "" for anything else. */
function names(given: unknown): string {
  const all = Array.isArray(given) ? given : [given];
  return all.every((name) => typeof name === "string") ? all.join(", ") : "";
}

/** When a fault that is pending begins: as it says itself, else at the second at which it was asked for. */
export function beginsWhen({ at, after_steps }: Fault, asked_s: number | null): string {
  if (typeof after_steps === "number") return `, after ${formatCount(after_steps, "step")}`;
  const begins_s = typeof at === "number" ? at : asked_s;
  return begins_s === null ? "" : `, at ${formatEvent(begins_s)}`;
}

function faultLine(planned: PlannedFault, asked_s: number | null): HTMLElement {
  const { description, status, fired_s, healed_s, fault } = planned;
  const [sign, word] = STATUS[status] ?? ["?", status];
  const name = element("span", { class: "sdw-fault-name" });
  write(name, shortly(planned));
  name.title = cut(description);
  const begun = fired_s !== null ? ` at ${formatEvent(fired_s)}` : status === "pending" ? beginsWhen(fault, asked_s) : "";
  const ended = status === "healed" && healed_s !== null ? `, until ${formatEvent(healed_s)}` : "";
  const when = element("span", { class: "sdw-quiet" }, status === "healed" ? `ended${begun.replace(" at", ", from")}${ended}` : `${word}${begun}`);
  when.title = cut(when.textContent ?? "");
  return element("li", { "data-status": status }, element("span", { class: "sdw-status", "aria-hidden": "true" }, sign), name, when);
}

/** Shows the console in an element; returns what ends it. */
export function mountFaultConsole(root: HTMLElement, source: Source): () => void {
  const console = new FaultConsole(source);
  root.append(console.root);
  const end = source.on("state", console.update);
  console.update();
  return () => {
    end();
    console.root.remove();
  };
}
