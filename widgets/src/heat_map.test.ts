import assert from "node:assert/strict";
import { test } from "node:test";
import { cellFacts, neighbour } from "./heat_map.ts";
import type { Heat, HeatCell } from "./shard_header.ts";

function cell(task: string, changes: Partial<HeatCell> = {}): HeatCell {
  return { task, bytes: 1307580, color: "#8fc0e0", num_shards: 2, share: 0.0071, largest: [["w", 1000]], ...changes };
}

const row = (count: number, job: string) => Array.from({ length: count }, (_, index) => cell(`${job}:${index}`));
const HEAT: Heat = { columns: 5, rows: [row(1, "chief"), row(5, "ps"), row(3, "ps")], ramp: [], greatest: 1 };

test("the card has the exact numbers, then the largest shards and how many more", () => {
  const [facts, largest] = cellFacts(cell("ps:3"));
  assert.equal(facts.title, "ps:3");
  assert.deepEqual(facts.facts, [["bytes", "1,307,580 (1.2 MiB)"], ["share", "0.71 %"], ["shards", "2"]]);
  assert.deepEqual(largest.facts, [["w", "1000 B"], ["", "and 1 more"]]);
});

test("a task that is no part of the balance has no share, and one without shards no list", () => {
  const groups = cellFacts(cell("chief:0", { share: null, largest: [], num_shards: 0, bytes: 0 }));
  assert.deepEqual(groups.map(({ facts }) => facts), [[["bytes", "0 (0 B)"], ["shards", "0"]]]);
});

test("arrows lead to the cell beside, and up and down into rows of another length", () => {
  const from = (at: readonly [number, number], key: string) => neighbour(HEAT, at[0], at[1], key);
  assert.deepEqual(from([1, 1], "ArrowRight"), [1, 2]);
  assert.deepEqual(from([1, 4], "ArrowDown"), [2, 2]);
  assert.deepEqual(from([1, 4], "ArrowUp"), [0, 0]);
  assert.deepEqual([from([1, 2], "Home"), from([1, 2], "End")], [[1, 0], [1, 4]]);
});

test("there is nothing beyond the edges, and other keys lead nowhere", () => {
  const nowhere = [[0, 0, "ArrowUp"], [0, 0, "ArrowLeft"], [1, 4, "ArrowRight"], [2, 0, "ArrowDown"], [1, 1, "x"], [1, 1, "toString"]] as const;
  for (const [r, c, key] of nowhere) assert.equal(neighbour(HEAT, r, c, key), null);
});
