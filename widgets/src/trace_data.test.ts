import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";
import { BLOCK, firstAfter, type SortedTable } from "./table.ts";
import { decode } from "./trace_data.ts";

const SPANS = [
  { lane: 0, kind: "compute", start: 0.1, end: 0.3, facts: { batch: 32 } },
  { lane: 2, kind: "read", start: 0.2, end: 0.25 },
  { lane: 2, kind: "closure", start: 0, end: 0.5, facts: { closure: 7, name: "é" } },
];
const LANES = ["chief:0", "worker:0", "ps:0"];

for (const shift of [0, 3]) {
  test(`columns are read from bytes at address ${shift}`, () => {
    const { spans, names, header } = traceOf(LANES, SPANS, [], shift);
    assert.deepEqual([...(spans as SortedTable).laneFirst], [0, 1, 1, 3]);
    assert.deepEqual([...spans.start], [0.1, 0, 0.2]);
    assert.deepEqual([...spans.kind].map((kind) => header.kinds[kind].name), ["compute", "closure", "read"]);
    assert.equal(names[spans.name[2]], "read");
    assert.equal(spans.duration[0], Math.fround(0.3 - 0.1));
  });
}

test("facts belong to their rows, and rows without facts have none", () => {
  const { spans } = traceOf(LANES, [SPANS[0], { ...SPANS[2], facts: { closure: 7 } }, SPANS[1]]);
  assert.deepEqual([0, 1, 2].map((row) => spans.facts(row)), [{ batch: 32 }, { closure: 7 }, {}]);
});

test("lane of a row skips lanes without rows", () => {
  const { spans } = traceOf(LANES, SPANS);
  assert.deepEqual([0, 1, 2].map((row) => spans.laneOf(row)), [0, 2, 2]);
});

test("first row after a time is found between equal starts", () => {
  const start = Float64Array.from([0, 1, 1, 1, 2]);
  assert.deepEqual([-1, 0, 1, 2].map((time) => firstAfter(start, 0, 5, time)), [0, 1, 4, 5]);
});

test("blocks that end before the window are skipped, a long early span is not", () => {
  const short = Array.from({ length: 3 * BLOCK }, (_, i) => ({ lane: 0, kind: "read", start: i, end: i + 0.5 }));
  const long = { lane: 0, kind: "closure", start: 10.2, end: 3 * BLOCK };
  const visit = (rows: typeof short): [number, number][] => {
    const seen: [number, number][] = [];
    traceOf(["w"], rows).spans.stretches(0, 2.5 * BLOCK, 2.6 * BLOCK, (from, to) => seen.push([from, to]));
    return seen;
  };
  assert.deepEqual(visit(short).map(([from]) => from), [2 * BLOCK]);
  assert.deepEqual(visit([...short, long]).map(([from]) => from), [0, 2 * BLOCK]);
});

test("another version of the format is refused", () => {
  const { header } = traceOf(LANES, SPANS);
  assert.throws(() => decode({ ...header, version: 1 }, new DataView(new ArrayBuffer(0))), /unknown trace format 1/);
});
