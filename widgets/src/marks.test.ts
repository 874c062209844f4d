import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf, type Row } from "./fixtures.ts";
import { layOutMarks } from "./marks.ts";

const VIEW = { start: 0, end: 100 };

function marks(instants: readonly Row[], width = 1000) {
  const data = traceOf(["worker:0"], [], instants);
  const name = (row: number): string => data.header.marks[data.instants.kind[row]].name;
  return layOutMarks(data, 0, VIEW, width).map(({ x, row, rows }) => ({ x, name: name(row), count: rows.length }));
}

test("marks that are apart are drawn apart", () => {
  const found = marks([
    { lane: 0, kind: "crash", start: 10 },
    { lane: 0, kind: "restart", start: 20 },
  ]);
  assert.deepEqual(found, [
    { x: 100, name: "crash", count: 1 },
    { x: 200, name: "restart", count: 1 },
  ]);
});

test("of marks on one place the most serious is shown, and none is lost", () => {
  for (const kinds of [["retry", "crash", "restart"], ["crash", "restart", "retry"], ["restart", "retry", "crash"]]) {
    const found = marks(kinds.map((kind, index) => ({ lane: 0, kind, start: 50 + index * 0.01 })));
    assert.deepEqual(found.map(({ name, count }) => [name, count]), [["crash", 3]]);
  }
});

test("retry is shown over restart", () => {
  const found = marks(["restart", "retry"].map((kind) => ({ lane: 0, kind, start: 50 })));
  assert.equal(found[0].name, "retry");
});

test("notes are drawn first and never swallow a mark", () => {
  const found = marks([
    { lane: 0, kind: "place", start: 50 },
    { lane: 0, kind: "crash", start: 50.01 },
    { lane: 0, kind: "place", start: 50.02 },
  ]);
  assert.deepEqual(found.map(({ name, count }) => [name, count]), [["place", 2], ["crash", 1]]);
});

test("a fault is there at any zoom", () => {
  const kindOf = (i: number): string => (i === 500 ? "crash" : "retry");
  const instants = Array.from({ length: 1000 }, (_, i) => ({ lane: 0, kind: kindOf(i), start: i / 10 }));
  for (const width of [5, 50, 500, 5000]) assert.ok(marks(instants, width).some(({ name }) => name === "crash"));
});

test("marks outside the view are left out, those whose edge is inside are not", () => {
  const found = marks([
    { lane: 0, kind: "crash", start: 100.5 },
    { lane: 0, kind: "crash", start: 102 },
  ]);
  assert.deepEqual(found.map(({ x }) => x), [1005]);
});
