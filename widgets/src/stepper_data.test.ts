import assert from "node:assert/strict";
import { test } from "node:test";
import { twoRanks } from "./stepper_fixtures.ts";

test("a chunk knows whose data it holds at every moment", () => {
  const data = twoRanks();
  const seen = [0, 1, 2].map((moment) => data.chunk(moment, 1, 0).contributors);
  assert.deepEqual(seen, [[1], [0, 1], [0, 1]]);
  assert.equal(data.last, 2);
});

test("a chunk that was passed on is not needed, a whole sum is complete", () => {
  const data = twoRanks();
  assert.deepEqual(data.chunk(1, 0, 0), { contributors: [0], needed: false, complete: false, value: null });
  assert.deepEqual(data.chunk(1, 0, 1), { contributors: [0, 1], needed: true, complete: true, value: null });
});

test("values are read from any address", () => {
  assert.deepEqual([0, 1, 2].map((moment) => twoRanks(true, 3).chunk(moment, 0, 1).value), [2, 22, 22]);
});

test("data of another version is refused", () => {
  assert.throws(() => twoRanks(false, 0, { version: 2 }), /unknown format 2: reinstall/);
});
