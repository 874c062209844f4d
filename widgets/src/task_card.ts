// What stands beside a task that was clicked: its facts, and the faults that can befall it.

import { Asking } from "./asking.ts";
import { element } from "./dom.ts";
import { FaultForm } from "./fault_form.ts";
import { firstEntries, inOrder, isComplete, taskParameter } from "./fault_values.ts";
import { formatCount } from "./format.ts";
import type { FaultKind, Task } from "./lab_types.ts";
import type { Source } from "./source.ts";
import { colorOf, styleOf } from "./task_states.ts";
import { cut, sentence, write } from "./words.ts";

export class TaskCard {
  readonly element = element("div", { class: "sdw-card", role: "dialog", "aria-label": "Task", hidden: true, tabindex: -1 });
  task = -1;
  private readonly asking: Asking;
  private readonly state = element("p", { class: "sdw-card-state" });
  private readonly facts = element("dl", { class: "sdw-facts" });

  constructor(
    private readonly source: Source,
    private readonly closed: () => void,
  ) {
    this.asking = new Asking(source);
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
  }

  open(task: number): void {
    this.task = task;
    this.asking.say("");
    const { layout } = this.source;
    const shown = layout.tasks[task];
    const title = element("h4", {});
    write(title, shown.name);
    const close = element("button", { type: "button", class: "sdw-plain", "aria-label": "Close", title: "Close (Esc)" }, "✕");
    close.addEventListener("click", () => this.close());
    const kinds = inOrder(layout.faults.filter(taskParameter));
    const menu = element("div", { class: "sdw-break", role: "group", "aria-label": `Break ${cut(shown.name, 60)}` }, ...kinds.map((kind) => this.item(kind, shown)));
    const heading = element("p", { class: "sdw-card-heading" }, this.source.canControl ? "Break it, now" : this.source.whyNot);
    this.element.replaceChildren(element("header", {}, title, close), this.state, this.facts, heading, this.asking.note);
    if (this.source.canControl) this.element.append(menu);
    this.element.hidden = false;
    this.element.scrollTop = 0;
    this.update();
  }

  close(): void {
    if (this.task < 0) return;
    this.task = -1;
    this.element.hidden = true;
    this.closed();
  }

  /** Shows the present state of the task. */
  update(): void {
    if (this.task < 0) return;
    const state = this.source.state();
    const { name, job, host, rack } = this.source.layout.tasks[this.task];
    const style = styleOf(state.tasks[this.task]);
    const dot = element("span", { class: "sdw-swatch", style: `background:${colorOf(style, this.source.layout)}` });
    this.state.replaceChildren(dot, element("strong", {}, style.state), ` ${style.says}`);
    const closure = state.queue?.closures.find(({ worker }) => worker === name);
    const [out, coming] = [state.flights.filter(({ source }) => source === name), state.flights.filter(({ target }) => target === name)];
    const rows: [string, string][] = [["job", job], ["host", host]];
    if (rack >= 0) rows.push(["rack", String(rack)]);
    if (closure) rows.push(["closure", `#${closure.number}`]);
    rows.push(["messages", `${formatCount(coming.length, "message").split(" ")[0]} in, ${out.length} out`]);
    this.facts.replaceChildren(...rows.flatMap(([key, value]) => [element("dt", {}, key), element("dd", { title: cut(value) }, cut(value, 200))]));
  }

  /** One kind of fault: a button that does it where nothing is missing, and its parameters behind another. */
  private item(kind: FaultKind, task: Task): HTMLElement {
    const parameter = taskParameter(kind);
    const given = parameter ? { [parameter.name]: parameter.type === "tasks" ? [task.name] : task.name } : {};
    const others = kind.parameters.filter((other) => other !== parameter);
    const ready = isComplete(kind, firstEntries(kind.parameters, given));
    const act = element("button", { type: "button", class: "sdw-act", title: cut(kind.says ?? "") }, sentence(kind.kind), ready ? "" : " …");
    const more = element("button", { type: "button", class: "sdw-plain", "aria-expanded": "false", "aria-label": `Parameters of ${kind.kind}`, title: "Parameters" }, "⋯");
    const row = element("div", { class: "sdw-break-item" }, act, ...(others.length ? [more] : []));
    let form: FaultForm | null = null;
    const toggle = (): void => {
      const isOpen = more.getAttribute("aria-expanded") === "true";
      row.querySelector(".sdw-break-form")?.remove();
      more.setAttribute("aria-expanded", String(!isOpen));
      form = isOpen ? null : new FaultForm(this.source.layout, { ...kind, parameters: others });
      if (!form) return;
      const go = element("button", { type: "button", class: "sdw-go" }, `${sentence(kind.kind)} now`);
      go.addEventListener("click", () => this.inject(form?.read(), given, go));
      row.append(element("div", { class: "sdw-break-form" }, form.element, go));
    };
    more.addEventListener("click", toggle);
    act.addEventListener("click", () => {
      if (form || !ready) return form ? this.inject(form.read(), given, act) : toggle();
      this.inject({ kind: kind.kind, ...defaultsOf(others) }, given, act);
    });
    return row;
  }

  private inject(fault: Readonly<Record<string, unknown>> | null | undefined, given: Readonly<Record<string, unknown>>, control: HTMLElement): void {
    if (fault) void this.asking.ask("inject", { fault: { ...fault, ...given } }, control).then((reply) => reply.error === undefined && this.close());
  }
}

function defaultsOf(parameters: FaultKind["parameters"]): Record<string, unknown> {
  return Object.fromEntries(parameters.flatMap(({ name, default: usual }) => (usual === null || usual === undefined ? [] : [[name, usual]])));
}
