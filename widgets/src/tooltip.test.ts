import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";
import { hitTest } from "./hit_test.ts";
import { describe, spoken } from "./tooltip.ts";

const VIEW = { start: 0, end: 1 };

test("a span is described with its facts, then the closure around it", () => {
  const data = traceOf(["worker:0"], [
    { lane: 0, kind: "closure", start: 0.1, end: 0.9, facts: { closure: 7 } },
    { lane: 0, kind: "read", start: 0.2, end: 0.4, facts: { bytes: 101770 } },
  ]);
  const hit = hitTest(data, 0, VIEW, 100, 30);
  assert.ok(hit);
  const [inner, outer] = describe(data, hit);
  assert.deepEqual(inner.facts, [
    ["lane", "worker:0"],
    ["category", "read"],
    ["start", "0.2 s"],
    ["duration", "200 ms"],
    ["bytes", "101,770"],
  ]);
  assert.deepEqual(outer.facts.at(-1), ["closure", "7"]);
});

test("of a mark that stands for many instants, one has its facts and all are listed", () => {
  const kinds = ["retry", "crash", "retry"];
  const data = traceOf(["worker:0"], [], kinds.map((kind) => ({ lane: 0, kind, start: 0.5 })));
  const hit = hitTest(data, 0, VIEW, 100, 50);
  assert.ok(hit);
  const [one, list] = describe(data, hit);
  assert.equal(one.title, "crash");
  assert.equal(list.title, "2 of 3 here");
  assert.deepEqual(list.facts, [["0.5 s", "retry"], ["0.5 s", "▸ crash"], ["0.5 s", "retry"]]);
  assert.ok(!spoken([one, list]).includes("retry"));
});

test("of a very large group those around the chosen one are listed, and how to read the others", () => {
  const data = traceOf(["worker:0"], [], Array.from({ length: 40 }, () => ({ lane: 0, kind: "retry", start: 0.5 })));
  const rows = Array.from({ length: 40 }, (_, row) => row);
  for (const row of rows) {
    const [, list] = describe(data, { sort: "instants", lane: 0, row, rows });
    assert.equal(list.facts.length, 13);
    assert.equal(list.facts.filter(([, name]) => name.startsWith("▸")).length, 1);
    assert.deepEqual(list.facts.at(-1), ["", "n and p go through all 40"]);
  }
});

test("what is spoken is one line", () => {
  const groups = [{ title: "crash", color: "", facts: [["at", "1 s"]] as [string, string][] }];
  assert.equal(spoken([...groups, ...groups]), "crash, at 1 s; crash, at 1 s");
});
