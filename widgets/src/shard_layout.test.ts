import assert from "node:assert/strict";
import { test } from "node:test";
import { HEIGHT, layOut, MOST_BLOCKS, SEEN, type Shard } from "./shard_layout.ts";
import { facts, label, note, rows, sameVariable } from "./shard_text.ts";

function shard(task: string, size_bytes: number, changes: Partial<Shard> = {}): Shard {
  const whole = { variable: "dense/kernel", shape: [64, 4], dtype: "float32", shard: 0, num_shards: 1 };
  return { ...whole, row_start: 0, row_stop: 64, kind: "parameter", task, size_bytes, ...changes };
}

test("heights are bytes on one scale for all tasks, whatever has room in them", () => {
  const sizes: Record<string, number[]> = { "chief:0": [1, 1], "ps:0": [24_000, 400, 400, 100], "ps:1": [31_500] };
  const shards = Object.entries(sizes).flatMap(([task, own]) => own.map((bytes, i) => shard(task, bytes, { variable: `v${i}` })));
  const columns = layOut(Object.keys(sizes), ["ps:0", "ps:1"], shards);
  for (const column of columns) {
    assert.ok(Math.abs(column.height - (HEIGHT * column.bytes) / 31_500) < 1e-9);
    for (const block of column.blocks) {
      const bytes = block.shards.reduce((sum, { size_bytes }) => sum + size_bytes, 0);
      assert.ok(Math.abs(block.height - (HEIGHT * bytes) / 31_500) < 1e-9);
    }
  }
  assert.deepEqual(columns.map((column) => column.share?.toFixed(3)), [undefined, "0.441", "0.559"]);
});

test("blocks lie on each other without gaps and fill their column", () => {
  const [{ blocks, height }] = layOut(["ps:0"], ["ps:0"], [shard("ps:0", 1000), shard("ps:0", 500), shard("ps:0", 1)]);
  const ends = blocks.map((block) => block.top + block.height);
  assert.deepEqual(blocks.map((block) => block.top), [0, ...ends.slice(0, -1)]);
  assert.ok(Math.abs(ends[ends.length - 1] - height) < 1e-9);
});

test("what is too small to be seen is folded into one block", () => {
  const tiny = Array.from({ length: 5 }, (_, i) => shard("ps:0", 2, { variable: `b${i}` }));
  const [{ blocks }] = layOut(["ps:0"], ["ps:0"], [tiny[0], shard("ps:0", 1000), ...tiny.slice(1)]);
  assert.deepEqual(blocks.map((block) => block.shards.length), [1, 5]);
  assert.ok(blocks[0].height >= SEEN);
});

test("the smallest of many blocks are folded into one, and no byte is lost", () => {
  const many = Array.from({ length: 100 }, (_, i) => shard("ps:0", i + 1000, { variable: `v${i}` }));
  const [{ blocks, bytes }] = layOut(["ps:0"], ["ps:0"], many);
  assert.equal(blocks.length, MOST_BLOCKS);
  assert.equal(blocks.at(-1)?.shards.length, 100 - MOST_BLOCKS + 1);
  assert.equal(bytes, 104_950);
  assert.equal(blocks.flatMap((block) => block.shards).reduce((sum, { size_bytes }) => sum + size_bytes, 0), 104_950);
});

test("a task without shards is an empty column", () => {
  const [, empty] = layOut(["ps:0", "ps:1"], ["ps:0", "ps:1"], [shard("ps:0", 8)]);
  assert.deepEqual([empty.blocks, empty.height], [[], 0]);
});

test("labels name the rows of a cut variable, and the bytes", () => {
  const cut = { shards: [shard("ps:0", 512, { num_shards: 2, row_stop: 32 })], top: 0, height: 30 };
  assert.equal(label(cut, 300), "dense/kernel · rows 0–31");
  assert.equal(rows(cut, 300), "rows 0–31 of 64 · 512 B");
  assert.deepEqual([100, 80, 40, 10].map((room) => rows(cut, room)), ["rows 0–31 of 64", "rows 0–31", "0–31", ""], "no number is cut");
  const large = { ...cut, shards: [shard("ps:0", 512, { num_shards: 2, shape: [2_000_000], row_start: 500_000, row_stop: 1_000_000 })] };
  assert.equal(rows(large, 300), "rows 500,000–999,999 of 2,000,000 · 512 B");
  const whole = { ...cut, shards: [shard("ps:0", 1024)] };
  assert.deepEqual([130, 50, 45, 10].map((room) => rows(whole, room)), ["64 × 4 · 1.0 KiB", "64 × 4", "64 × 4", ""]);
  assert.deepEqual(facts(cut)[0].facts.find(([key]) => key === "shard"), ["shard", "1 of 2"]);
  const columns = { shards: [shard("ps:0", 512, { num_shards: 2, row_stop: 4, axis: 1, slot_of: "kernel" })], top: 0, height: 30 };
  assert.equal(label(columns, 300), "dense/kernel · columns 0–3");
  assert.deepEqual(facts(columns)[0].facts.slice(2, 5), [["slot of", "kernel"], ["shard", "1 of 2"], ["columns", "0–3"]]);
});

test("the line below a column names a block and its bytes", () => {
  const block = (...shards: Shard[]) => ({ shards, top: 0, height: 1 });
  assert.equal(note(block(shard("ps:0", 4, { variable: "count" })), 300), "count · 4 B");
  assert.equal(note(block(shard("ps:0", 4), shard("ps:0", 8)), 300), "2 smaller, 12 B");
});

test("shards of one variable know each other, its slots are another variable", () => {
  const block = (one: Shard) => ({ shards: [one], top: 0, height: 10 });
  assert.ok(sameVariable(block(shard("a", 1)), block(shard("b", 1, { shard: 1 }))));
  assert.ok(!sameVariable(block(shard("a", 1)), block(shard("b", 1, { kind: "slot" }))));
  assert.ok(!sameVariable(block(shard("a", 1)), block(shard("b", 1, { namesake: 1 }))), "two variables of one name");
  assert.ok(sameVariable(block(shard("a", 1, { namesake: 1 })), block(shard("b", 1, { namesake: 1 }))));
});
