// The whole laboratory: the bar above, the cluster and its timeline side by side, charts and the console below. A branch
// that is compared has its timeline below the first, on the same axis.

import { mountBranches } from "./branches_bar.ts";
import { mountCharts } from "./charts_view.ts";
import { Comparing } from "./comparing.ts";
import { element } from "./dom.ts";
import { mountWith, type LoadPart, type Parts } from "./parts.ts";
import { mountSide } from "./side_view.ts";
import type { Source } from "./source.ts";
import type { Line } from "./timeline_source.ts";
import { mountTransport } from "./transport.ts";
import { cut } from "./words.ts";

/** Shows all views of a source in an element, those that are parts as soon as `load` has them; returns what ends them. */
export function mountLab(root: HTMLElement, source: Source, load: LoadPart): () => void {
  const lab = element("div", { class: "sdw sdw-lab", tabindex: -1, "data-lm-suppress-shortcuts": "true" });
  const grid = element("div", { class: "sdw-lab-grid" });
  const [top, topology, charts, timeline, side] = ["top", "topology", "charts", "timeline", "side"].map(area);
  grid.append(top, element("div", { class: "sdw-lab-left" }, topology, charts), timeline, side);
  lab.append(grid);
  root.replaceChildren(lab);
  const comparing = new Comparing(source);
  const ends = [
    mountTransport(top, source, lab),
    mountBranches(top, source, comparing),
    mountWith(topology, load, "topology", ({ mountTopology }) => mountTopology(topology, source)),
    mountWith(timeline, load, "timeline", (part) => mountTimelines(part, timeline, source, comparing)),
    mountWith(charts, load, "uplot", ({ default: UPlot }) => mountCharts(UPlot, charts, source, comparing)),
    mountSide(side, source, load),
  ];
  return () => {
    for (const end of ends) end();
    lab.remove();
  };
}

function area(name: string): HTMLElement {
  return element("section", { class: `sdw-area-${name}` });
}

/** The timeline of the present branch, and below it that of the branch that it is compared with. */
function mountTimelines({ mountLiveTimeline }: Parts["timeline"], root: HTMLElement, source: Source, comparing: Comparing): () => void {
  const difference = (): Line | null => (comparing.sameUntil === null ? null : { time: comparing.sameUntil, sort: "difference", label: "the same up to here" });
  const place = root.appendChild(element("div"));
  const below = root.appendChild(element("div", { class: "sdw-other-branch" }));
  const first = mountLiveTimeline(place, source, { beside: () => comparing.other, difference, redrawn: (listener) => comparing.on("changed", listener) });
  let shown: number | null = null;
  let end = (): void => {};
  const update = (): void => {
    const { other } = comparing;
    if (other === shown) return;
    end();
    end = () => {};
    shown = other;
    below.replaceChildren();
    if (other === null) return;
    const name = source.state().branches.find(({ number }) => number === other)?.name ?? "";
    const inside = element("div");
    below.append(element("h5", {}, cut(name, 80)), inside);
    end = mountLiveTimeline(inside, source, { branch: () => other, difference, redrawn: (listener) => comparing.on("changed", listener) });
  };
  const unwatch = comparing.on("changed", update);
  return () => {
    unwatch();
    end();
    first();
  };
}
