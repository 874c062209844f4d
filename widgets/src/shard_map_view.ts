// Which task holds which rows of which variable, and how many bytes that makes: columns of blocks, or of very many tasks
// a heat map. Python decides which of the two (shard_map.py). Mounted into any element, on any source of a header.

import { element } from "./dom.ts";
import { formatBytes, formatCount } from "./format.ts";
import { HeatMap } from "./heat_map.ts";
import { ShardColumns } from "./shard_columns.ts";
import type { ShardHeader } from "./shard_header.ts";
import { Tooltip } from "./tooltip.ts";

/** Where a shard map has its shards from. */
export interface ShardSource {
  header(): ShardHeader;
  /** Calls `changed` when there is another header; returns what ends that. */
  watch(changed: () => void): () => void;
}

/** Shows a shard map in an element; returns what ends it. */
export function mountShardMap(root: HTMLElement, source: ShardSource): () => void {
  let sizes: ResizeObserver | null = null;
  const start = (): void => {
    sizes?.disconnect();
    const { map, draw } = buildMap(source.header());
    root.replaceChildren(map);
    sizes = new ResizeObserver(draw);
    sizes.observe(map);
    draw();
  };
  start();
  const unwatch = source.watch(start);
  return () => {
    unwatch();
    sizes?.disconnect();
  };
}

function buildMap(header: ShardHeader): { map: HTMLElement; draw: () => void } {
  const tooltip = new Tooltip();
  const look = { class: "sdw sdw-shard-map", role: "group", "aria-label": "Shard map", "data-lm-suppress-shortcuts": "true" };
  const map = element("div", look);
  const view = header.heat ? new HeatMap(header.heat, map, tooltip) : new ShardColumns(header, map, tooltip);
  map.append(summary(header), ...view.elements, tooltip.element);
  return { map, draw: view.draw };
}

function summary({ tasks, num_variables, num_shards, size_bytes, balance }: ShardHeader): HTMLElement {
  const counts = `${formatCount(num_variables, "variable")}, ${formatCount(num_shards, "shard")}, on ${formatCount(tasks.length, "task")}`;
  const text = ` in ${counts}${balance && "; "}${balance}`;
  const parts = num_shards ? [element("strong", {}, formatBytes(size_bytes)), text] : ["No variables yet."];
  return element("p", { class: "sdw-balance" }, ...parts);
}
