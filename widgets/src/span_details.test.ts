import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";

test("down times are found by their level", () => {
  const spans = ["compute", "down", "read"].map((kind, start) => ({ lane: 0, kind, start, end: start + 1 }));
  assert.deepEqual([...traceOf(["worker:0"], spans).downRows()], [1]);
});
