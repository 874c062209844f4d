// The whole laboratory: the bar above, the cluster and its timeline side by side, charts and the console below.

import { element } from "./dom.ts";
import { mountLiveTimeline } from "./live_timeline.ts";
import type { Source } from "./source.ts";
import { mountTopology } from "./topology_view.ts";
import { mountTransport } from "./transport.ts";

/** Shows all views of a source in an element; returns what ends them. */
export function mountLab(root: HTMLElement, source: Source): () => void {
  const lab = element("div", { class: "sdw sdw-lab", "data-lm-suppress-shortcuts": "true" });
  const grid = element("div", { class: "sdw-lab-grid" });
  const area = (name: string): HTMLElement => grid.appendChild(element("section", { class: `sdw-area-${name}` }));
  lab.append(grid);
  root.replaceChildren(lab);
  const ends = [mountTransport(area("top"), source, lab), mountTopology(area("topology"), source), mountLiveTimeline(area("timeline"), source)];
  return () => {
    for (const end of ends) end();
    lab.remove();
  };
}
