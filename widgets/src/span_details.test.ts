import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";
import { downRows, shorten } from "./span_details.ts";

test("a name is whole, cut, or left out, by the room that it has", () => {
  assert.deepEqual([100, 50, 20].map((width) => shorten("train_step", width)), ["train_step", "train_s…", ""]);
  assert.equal(shorten("read", 25), "read");
});

test("down times are found by their level", () => {
  const spans = ["compute", "down", "read"].map((kind, start) => ({ lane: 0, kind, start, end: start + 1 }));
  assert.deepEqual([...downRows(traceOf(["worker:0"], spans))], [1]);
});
