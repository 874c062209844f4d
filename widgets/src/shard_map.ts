// sw.ShardMap: the view of a shard map, on the model of a widget.

import type { Model, RenderContext } from "./model.ts";
import type { ShardHeader } from "./shard_header.ts";
import { mountShardMap, type ShardSource } from "./shard_map_view.ts";

function sourceOf(model: Model): ShardSource {
  return {
    header: () => model.get("header") as ShardHeader,
    watch(changed) {
      model.on("change:header", changed);
      return () => model.off("change:header", changed);
    },
  };
}

export default { render: ({ model, el }: RenderContext): (() => void) => mountShardMap(el, sourceOf(model)) };
