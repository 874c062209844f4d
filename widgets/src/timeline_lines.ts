// Lines across all lanes: the present, the moment that the reader points at, where two runs part. They are elements over
// the plot, so that moving one draws no lane again.

import { element } from "./dom.ts";
import type { View } from "./time_scale.ts";
import type { Line } from "./timeline_source.ts";
import { cut } from "./words.ts";

export class Lines {
  readonly element = element("div", { class: "sdw-lines", "aria-hidden": "true" });
  private readonly known = new Map<string, HTMLElement>();

  show(lines: readonly Line[], view: View): void {
    for (const node of this.known.values()) node.hidden = true;
    for (const { time, sort, label } of lines) {
      if (time < view.start || time > view.end) continue;
      const node = this.known.get(sort) ?? this.element.appendChild(element("div", { class: `sdw-at sdw-at-${sort}` }));
      this.known.set(sort, node);
      node.hidden = false;
      const part = (time - view.start) / (view.end - view.start);
      node.style.left = `${(part * 100).toFixed(3)}%`;
      node.classList.toggle("sdw-late", part > 0.8); // its words stand on the other side
      const text = cut(label ?? "", 80);
      if (node.textContent !== text) node.replaceChildren(...(text ? [element("span", {}, text)] : []));
    }
  }
}
