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

test("a mark that stands for many instants tells the most serious first and how many are not told", () => {
  const kinds = ["retry", "crash", "retry", "retry", "retry", "retry"];
  const data = traceOf(["worker:0"], [], kinds.map((kind) => ({ lane: 0, kind, start: 0.5 })));
  const hit = hitTest(data, 0, VIEW, 100, 50);
  assert.ok(hit);
  const titles = describe(data, hit).map(({ title }) => title);
  assert.deepEqual(titles, ["crash", "retry", "retry", "retry", "and 2 more here"]);
});

test("what is spoken is one line", () => {
  const groups = [{ title: "crash", color: "", facts: [["at", "1 s"]] as [string, string][] }];
  assert.equal(spoken([...groups, ...groups]), "crash, at 1 s; crash, at 1 s");
});
