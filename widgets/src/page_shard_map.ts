import shardMap from "./shard_map.ts";
import { showAll } from "./page.ts";

showAll("shard_map", shardMap.render);
