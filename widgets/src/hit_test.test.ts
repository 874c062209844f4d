import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";
import { hitTest, type Hit } from "./hit_test.ts";

const DATA = traceOf(
  ["worker:0", "worker:1"],
  [
    { lane: 0, kind: "closure", start: 10, end: 40 },
    { lane: 0, kind: "read", start: 12, end: 20 },
    { lane: 0, kind: "compute", start: 20, end: 30 },
    { lane: 0, kind: "read", start: 60, end: 60.01 },
    { lane: 1, kind: "down", start: 0, end: 100 },
  ],
  [
    { lane: 1, kind: "place", start: 5 },
    { lane: 1, kind: "restart", start: 90 },
    { lane: 0, kind: "crash", start: 80 },
  ],
);
const VIEW = { start: 0, end: 100 };
const at = (lane: number, x: number): Hit | null => hitTest(DATA, lane, VIEW, 1000, x);

function name(hit: Hit | null): string {
  if (hit === null) return "idle";
  if (hit.sort === "instants") return DATA.header.marks[DATA.instants.kind[hit.row]].name;
  return DATA.header.kinds[DATA.spans.kind[hit.row]].name;
}

test("the innermost span is hit, with the closure around it", () => {
  const hit = at(0, 250);
  assert.equal(name(hit), "compute");
  assert.ok(hit?.sort === "span" && DATA.spans.start[hit.outer] === 10);
});

test("a closure is hit where nothing is inside it, without an outer span", () => {
  const hit = at(0, 350);
  assert.equal(name(hit), "closure");
  assert.ok(hit?.sort === "span" && hit.outer === -1);
});

test("between two neighbours the one under the pointer is hit", () => {
  assert.deepEqual([at(0, 199), at(0, 201)].map(name), ["read", "compute"]);
});

test("a span thinner than a pixel is hit from beside it", () => {
  assert.deepEqual([at(0, 601.5), at(0, 604)].map(name), ["read", "idle"]);
});

test("a mark is hit before what is under it", () => {
  assert.deepEqual([at(1, 905), at(1, 920)].map(name), ["restart", "down"]);
});

test("idle time is no hit", () => {
  assert.equal(at(0, 500), null);
});

test("events are in order of time across lanes, without notes", () => {
  const names = [...DATA.eventRows()].map((row) => DATA.header.marks[DATA.instants.kind[row]].name);
  assert.deepEqual(names, ["crash", "restart"]);
});
