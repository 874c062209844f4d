// Tabs: a list of names of which one is chosen, and the panel that belongs to it. Arrow keys walk along the names.

import { element } from "./dom.ts";

export interface Tab {
  readonly name: string;
  readonly panel: HTMLElement;
}

let made = 0;

export class Tabs {
  readonly element: HTMLElement;
  chosen = 0;
  private readonly buttons: readonly HTMLButtonElement[];
  private readonly badges: readonly HTMLElement[];

  constructor(label: string, private readonly tabs: readonly Tab[], private readonly changed: () => void = () => {}) {
    const id = `sdw-tabs-${made++}`;
    this.badges = tabs.map(() => element("span", { class: "sdw-tab-count", hidden: true }));
    this.buttons = tabs.map(({ name, panel }, index) => {
      const button = element("button", { type: "button", role: "tab", id: `${id}-${index}`, "aria-controls": `${id}-panel-${index}` }, name, this.badges[index]);
      Object.entries({ role: "tabpanel", id: `${id}-panel-${index}`, "aria-labelledby": `${id}-${index}` }).forEach((pair) => panel.setAttribute(...pair));
      panel.classList.add("sdw-panel");
      button.addEventListener("click", () => this.choose(index));
      return button;
    });
    const list = element("div", { class: "sdw-tabs", role: "tablist", "aria-label": label }, ...this.buttons);
    list.addEventListener("keydown", (event) => this.onKey(event));
    this.element = element("div", { class: "sdw-tabbed" }, list, ...tabs.map(({ panel }) => panel));
    this.choose(0);
  }

  choose(index: number): void {
    this.chosen = index;
    this.buttons.forEach((button, other) => {
      button.setAttribute("aria-selected", String(other === index));
      button.tabIndex = other === index ? 0 : -1;
      this.tabs[other].panel.hidden = other !== index;
    });
    this.changed();
  }

  /** A small number beside a name; "" for none. */
  badge(index: number, text: string): void {
    const badge = this.badges[index];
    badge.hidden = text === "";
    if (badge.textContent !== text) badge.textContent = text;
  }

  private onKey(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose((this.chosen + step + this.tabs.length) % this.tabs.length);
    this.buttons[this.chosen].focus();
  }
}
