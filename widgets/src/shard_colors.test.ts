import assert from "node:assert/strict";
import { test } from "node:test";
import { cellFacts } from "./heat_map.ts";
import type { Shard } from "./shard_layout.ts";
import { facts, scaledColor } from "./shard_text.ts";

const PLACE = { variable: "v", shape: [8], dtype: "float32", shard: 0, num_shards: 1, row_start: 0, row_stop: 8 };
const shard = (changes: Partial<Shard> = {}): Shard => ({ ...PLACE, kind: "parameter", task: "ps:0", size_bytes: 32, ...changes });

test("shards without a figure are coloured by their kind", () => {
  assert.equal(scaledColor([shard()]), undefined);
});

test("several shards in one block have the colour of the greatest value", () => {
  const cold = shard({ color: "#eff3fa", value: 0 });
  const hot = shard({ color: "#08408a", value: 9 });
  const unknown = shard({ color: "#7f8790", value: null });
  assert.equal(scaledColor([cold, hot, unknown]), "#08408a");
  assert.equal(scaledColor([unknown, cold]), "#eff3fa");
  assert.equal(scaledColor([unknown]), "#7f8790");
});

test("the card of a block has its traffic where that is known", () => {
  const traffic = [["reads", "5 (160 B)"]] as const;
  const words = (one: Shard): readonly string[] => facts({ shards: [one], top: 0, height: 9 })[0].facts.map((fact) => fact.join(": "));
  assert.ok(words(shard({ facts: traffic })).includes("reads: 5 (160 B)"));
  assert.ok(!words(shard()).some((fact) => fact.startsWith("reads")));
});

test("the card of a cell says what its colour shows", () => {
  const cell = { task: "ps:0", bytes: 8, color: "#08408a", num_shards: 1, share: null, largest: [] };
  const last = cellFacts({ ...cell, figure: ["versions", "12"] })[0].facts.at(-1);
  assert.deepEqual(last, ["versions", "12"]);
  assert.deepEqual(cellFacts(cell)[0].facts.at(-1), ["shards", "1"]);
});
