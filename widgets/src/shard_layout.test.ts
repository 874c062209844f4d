import assert from "node:assert/strict";
import { test } from "node:test";
import { GAP, HEIGHT, imbalance, layOut, LEAST, MOST_BLOCKS, type Shard } from "./shard_layout.ts";
import { facts, label, rows, sameVariable, shortenFront } from "./shard_text.ts";

function shard(task: string, size_bytes: number, changes: Partial<Shard> = {}): Shard {
  const whole = { variable: "dense/kernel", shape: [64, 4], dtype: "float32", shard: 0, num_shards: 1 };
  return { ...whole, row_start: 0, row_stop: 64, kind: "parameter", task, size_bytes, ...changes };
}

test("heights are bytes on one scale for all tasks", () => {
  const [full, half] = layOut(["ps:0", "ps:1"], [shard("ps:0", 1000), shard("ps:1", 500)]);
  assert.equal(full.blocks[0].height, HEIGHT - GAP);
  assert.equal(half.blocks[0].height, HEIGHT / 2 - GAP);
  assert.deepEqual([full.share, half.share].map((share) => share.toFixed(3)), ["0.667", "0.333"]);
});

test("blocks do not overlap, and a tiny one is high enough for its name", () => {
  const [{ blocks }] = layOut(["ps:0"], [shard("ps:0", 1000), shard("ps:0", 1), shard("ps:0", 1)]);
  assert.deepEqual(blocks.slice(1).map((block) => block.height), [LEAST, LEAST]);
  for (let i = 1; i < blocks.length; i++) assert.equal(blocks[i].top, blocks[i - 1].top + blocks[i - 1].height + GAP);
});

test("the smallest of many blocks are folded into one, and no byte is lost", () => {
  const many = Array.from({ length: 100 }, (_, i) => shard("ps:0", i + 1, { variable: `v${i}` }));
  const [{ blocks, bytes }] = layOut(["ps:0"], many);
  assert.equal(blocks.length, MOST_BLOCKS);
  assert.equal(blocks.at(-1)?.shards.length, 100 - MOST_BLOCKS + 1);
  assert.equal(bytes, 5050);
  assert.equal(blocks.flatMap((block) => block.shards).reduce((sum, { size_bytes }) => sum + size_bytes, 0), 5050);
});

test("imbalance is the fullest task over the mean", () => {
  assert.equal(imbalance(layOut(["a", "b"], [shard("a", 300), shard("b", 100)])), 1.5);
  assert.equal(imbalance(layOut([], [])), 1);
});

test("a task without shards is an empty column", () => {
  assert.deepEqual(layOut(["ps:0", "ps:1"], [shard("ps:0", 8)])[1].blocks, []);
});

test("labels name the rows of a cut variable, and the bytes", () => {
  const cut = { shards: [shard("ps:0", 512, { num_shards: 2, row_stop: 32 })], top: 0, height: 30 };
  assert.equal(label(cut, 300), "dense/kernel · rows 0–31");
  assert.equal(rows(cut, 300), "rows 0–31 of 64 · 512 B");
  assert.deepEqual(facts(cut)[0].facts.find(([key]) => key === "shard"), ["shard", "1 of 2"]);
});

test("a long name keeps its end", () => {
  assert.equal(shortenFront("sequential/dense/kernel", 61), "…se/kernel");
});

test("shards of one variable know each other, its slots are another variable", () => {
  const block = (one: Shard) => ({ shards: [one], top: 0, height: 10 });
  assert.ok(sameVariable(block(shard("a", 1)), block(shard("b", 1, { shard: 1 }))));
  assert.ok(!sameVariable(block(shard("a", 1)), block(shard("b", 1, { kind: "slot" }))));
});
