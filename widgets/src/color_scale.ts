// A strip of colours from nothing to the most, with the words for both ends: what the colours of a shard map show.

import { element, shape } from "./dom.ts";
import type { ShardScale } from "./shard_header.ts";

const SCALE_WIDTH = 240;

export function colorScale({ title, ramp, ends, unknown }: ShardScale): HTMLElement {
  const step = SCALE_WIDTH / ramp.length;
  const bars = ramp.map((fill, index) => shape("rect", { x: index * step, width: step + 0.5, height: 12, fill }));
  const strip = shape("svg", { width: SCALE_WIDTH, height: 12, "aria-hidden": "true" }, ...bars);
  const none = unknown ? [element("span", { class: "sdw-swatch", style: `background:${unknown}` }), "none"] : [];
  return element("p", { class: "sdw-scale" }, ...(title ? [element("span", {}, `${title}:`)] : []), ends[0], strip, ends[1], ...none);
}
