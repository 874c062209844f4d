// The side of the laboratory: faults, queue, output and commands, as tabs.

import { element } from "./dom.ts";
import { mountWith, type LoadPart } from "./parts.ts";
import { LogPanel, OutputPanel, QueuePanel } from "./side_panels.ts";
import type { Source } from "./source.ts";
import { Tabs } from "./tabs.ts";

const [FAULTS, QUEUE, , COMMANDS] = [0, 1, 2, 3];

/** Shows the tabs of a source in an element; returns what ends them. */
export function mountSide(root: HTMLElement, source: Source, load: LoadPart): () => void {
  const faults = element("div");
  const panels = { queue: new QueuePanel(), output: new OutputPanel(), log: new LogPanel() };
  const tabs = new Tabs("Console", [
    { name: "Faults", panel: faults },
    { name: "Queue", panel: panels.queue.element },
    { name: "Output", panel: panels.output.element },
    { name: "Commands", panel: panels.log.element },
  ]);
  const side = element("div", { class: "sdw sdw-side" }, tabs.element);
  root.append(side);
  const update = (): void => {
    const state = source.state();
    for (const panel of Object.values(panels)) panel.update(state);
    tabs.badge(FAULTS, state.faults.length ? String(state.faults.length) : "");
    tabs.badge(QUEUE, state.queue ? String(state.queue.waiting + state.queue.in_flight) : "");
    tabs.badge(COMMANDS, state.log.length ? String(state.log.length) : "");
  };
  const ends = [mountWith(faults, load, "fault_console", ({ mountFaultConsole }) => mountFaultConsole(faults, source)), source.on("state", update)];
  update();
  return () => {
    for (const end of ends) end();
    side.remove();
  };
}
