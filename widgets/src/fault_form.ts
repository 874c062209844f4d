// A form for one kind of fault, built from what its parameters declare: nothing here knows a kind by name.

import { element } from "./dom.ts";
import { bounds, faultOf, firstEntries, type Entry } from "./fault_values.ts";
import type { Fault, FaultKind, Layout, Parameter } from "./lab_types.ts";
import { cut, sentence } from "./words.ts";

const MOST_BUTTONS = 48; // tasks that are offered one by one; more are written as text

interface Control {
  readonly parameter: Parameter;
  readonly field: HTMLElement;
  readonly input: HTMLElement; // what has the focus
  read(): Entry;
}

export class FaultForm {
  readonly element: HTMLElement;
  private readonly controls: readonly Control[];
  private readonly problem = element("p", { class: "sdw-error", role: "alert", hidden: true });

  constructor(
    private readonly layout: Layout,
    private readonly kind: FaultKind,
    private readonly triggers: readonly Parameter[] = [],
    given: Readonly<Record<string, unknown>> = {},
  ) {
    const parameters = [...kind.parameters, ...triggers];
    const entries = firstEntries(parameters, given);
    this.controls = parameters.map((parameter) => this.control(parameter, entries[parameter.name]));
    this.element = element("div", { class: "sdw-form" }, ...this.controls.map(({ field }) => field), this.problem);
  }

  /** The fault as entered; null, and words at the field, where something is wrong. */
  read(): Fault | null {
    const entries = Object.fromEntries(this.controls.map((control) => [control.parameter.name, control.read()]));
    const found = faultOf(this.kind, this.triggers, entries);
    const wrong = "problem" in found ? found.name : "";
    this.problem.hidden = !wrong;
    for (const { parameter, input } of this.controls) input.setAttribute("aria-invalid", String(parameter.name === wrong));
    if ("fault" in found) return found.fault;
    this.problem.textContent = found.problem;
    const control = this.controls.find(({ parameter }) => parameter.name === wrong);
    control?.field.after(this.problem);
    control?.input.focus();
    return null;
  }

  private control(parameter: Parameter, entry: Entry): Control {
    const { type } = parameter;
    if (type === "switch") return switchControl(parameter, entry === true);
    if (type === "task") {
      const { tasks } = this.layout;
      const usual = tasks.find(({ job }) => job === "worker") ?? tasks.at(-1);
      return choiceControl(parameter, tasks.map(({ name }) => name), String(entry) || (usual?.name ?? ""));
    }
    if (type === "choice") return choiceControl(parameter, parameter.choices, String(entry));
    if (type === "tasks" && this.layout.tasks.length <= MOST_BUTTONS) return tasksControl(parameter, this.layout, entry as readonly string[]);
    return textControl(parameter, Array.isArray(entry) ? entry.join(", ") : String(entry));
  }
}

function field(parameter: Parameter, input: HTMLElement, ...more: Node[]): HTMLElement {
  const title = cut(`${parameter.says}${parameter.type === "number" ? `; ${bounds(parameter)}` : ""}`);
  const name = element("span", { class: "sdw-field-name" }, sentence(parameter.name));
  return element("label", { class: "sdw-field", title }, name, element("span", { class: "sdw-field-input" }, input, ...more));
}

function textControl(parameter: Parameter, value: string): Control {
  const placeholder = parameter.optional ? (parameter.name === "at" ? "now" : parameter.name === "until" ? "for ever" : "none") : "";
  const kind = parameter.type === "number" ? { inputmode: "decimal", size: 8 } : {};
  const input = element("input", { type: "text", value, placeholder, "aria-label": `${parameter.name}: ${parameter.says}`, ...kind });
  const unit = parameter.unit ? [element("span", { class: "sdw-unit" }, parameter.unit)] : [];
  return { parameter, input, field: field(parameter, input, ...unit), read: () => input.value };
}

function choiceControl(parameter: Parameter, choices: readonly string[], value: string): Control {
  const input = element("select", { "aria-label": `${parameter.name}: ${parameter.says}` });
  const first = parameter.optional ? [["", "any"]] : [];
  for (const [choice, text] of [...first, ...choices.map((name) => [name, cut(name, 60)])]) {
    input.append(element("option", { value: choice, selected: choice === value }, text));
  }
  return { parameter, input, field: field(parameter, input), read: () => input.value };
}

function switchControl(parameter: Parameter, value: boolean): Control {
  const input = element("input", { type: "checkbox", checked: value, "aria-label": `${parameter.name}: ${parameter.says}` });
  return { parameter, input, field: field(parameter, input, element("span", { class: "sdw-unit" }, parameter.says)), read: () => input.checked };
}

/** One small button for each task, pressed or not, and one for each job. */
function tasksControl(parameter: Parameter, { tasks }: Layout, chosen: readonly string[]): Control {
  const buttons = tasks.map(({ name }) => {
    const button = element("button", { type: "button", class: "sdw-chip", "aria-pressed": String(chosen.includes(name)), title: cut(name) }, cut(name, 24));
    button.addEventListener("click", () => press(button, button.getAttribute("aria-pressed") !== "true"));
    return button;
  });
  const press = (button: HTMLElement, isOn: boolean): void => button.setAttribute("aria-pressed", String(isOn));
  const several = [...new Set(tasks.map(({ job }) => job))].filter((job) => tasks.filter((task) => task.job === job).length > 1);
  const jobs = several.map((job) => {
    const button = element("button", { type: "button", class: "sdw-chip sdw-all", title: cut(`all tasks of the job ${job}, or none`) }, `all ${cut(job, 16)}`);
    const members = buttons.filter((_, index) => tasks[index].job === job);
    button.addEventListener("click", () => {
      const isOn = !members.every((member) => member.getAttribute("aria-pressed") === "true");
      for (const member of members) press(member, isOn);
    });
    return button;
  });
  const group = element("span", { class: "sdw-chips", role: "group", "aria-label": `${parameter.name}: ${parameter.says}`, tabindex: -1 }, ...jobs, ...buttons);
  const read = (): Entry => tasks.flatMap(({ name }, index) => (buttons[index].getAttribute("aria-pressed") === "true" ? [name] : []));
  const name = element("span", { class: "sdw-field-name" }, sentence(parameter.name), element("small", {}, ` ${parameter.says}`));
  return { parameter, input: group, read, field: element("div", { class: "sdw-field sdw-wide" }, name, group) };
}
