import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";
import { downRows } from "./span_details.ts";

test("down times are found by their level", () => {
  const spans = ["compute", "down", "read"].map((kind, start) => ({ lane: 0, kind, start, end: start + 1 }));
  assert.deepEqual([...downRows(traceOf(["worker:0"], spans))], [1]);
});
