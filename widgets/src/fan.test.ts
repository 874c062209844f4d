import assert from "node:assert/strict";
import { test } from "node:test";
import { FAN_STEP, layOutFan, memberAt, memberX } from "./fan.ts";

const GROUP = Array.from({ length: 40 }, (_, index) => 100 + index);

test("a small group is shown whole, around its mark, and each of it is found under the pointer", () => {
  const fan = layOutFan([4, 5, 6], 5, 200, 800);
  assert.deepEqual(fan.rows, [4, 5, 6]);
  assert.deepEqual([0, 1, 2].map((index) => memberAt(fan, memberX(fan, index))), [4, 5, 6]);
  assert.equal(memberX(fan, 1), 200);
  assert.deepEqual([memberAt(fan, fan.left - 1), memberAt(fan, fan.left + 3 * FAN_STEP + 1)], [-1, -1]);
});

test("a fan stays inside the plot", () => {
  assert.equal(layOutFan([1, 2, 3], 1, 2, 800).left, 0);
  assert.equal(layOutFan([1, 2, 3], 1, 799, 800).left, 800 - 3 * FAN_STEP);
});

test("of a large group the part with the chosen one is shown, and every one can be reached", () => {
  let first = 0;
  for (const row of [...GROUP, ...[...GROUP].reverse()]) {
    const fan = layOutFan(GROUP, row, 400, 800, first);
    assert.ok(fan.rows.includes(row));
    assert.ok(Math.abs(fan.first - first) <= 1);
    assert.equal(fan.rows.length, 15);
    first = fan.first;
  }
});

test("a narrow plot shows as many as it has room for", () => {
  assert.equal(layOutFan(GROUP, 100, 20, 60).rows.length, 3);
  assert.deepEqual(layOutFan(GROUP, 117, 20, 10).rows, [117]);
});
