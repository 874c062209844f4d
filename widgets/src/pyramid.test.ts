import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf, type Row } from "./fixtures.ts";
import { BINS, Pyramid } from "./pyramid.ts";
import { Rasteriser } from "./rasteriser.ts";

const LEVEL_OF = Uint8Array.of(0, 1, 1, 3);

/** The seconds of each category in a stretch of time, from the level whose bins are at most so wide. */
function total(pyramid: Pyramid, start: number, end: number, most: number): Map<number, number> {
  const level = pyramid.level(most, LEVEL_OF);
  assert.ok(level && level.width <= most);
  const [from, to] = [Math.floor(start / level.width), Math.ceil(end / level.width)];
  const seconds = (sums: Float32Array): number => sums.slice(from, to).reduce((sum, one) => sum + one, 0);
  return new Map(level.sums.flatMap((sums, kind) => (sums ? [[kind, seconds(sums)] as const] : [])));
}

const near = (found: number | undefined, wanted: number): void => assert.ok(Math.abs((found ?? NaN) - wanted) < 1e-5 * Math.max(1, wanted), `${found} is not ${wanted}`);

test("every level holds the seconds of each category", () => {
  const pyramid = new Pyramid(100);
  for (let i = 0; i < 1000; i++) pyramid.add(i % 3, i * 0.1, 0.05);
  pyramid.add(3, 100, 0); // at the very end
  for (const most of [0.02, 0.1, 0.5, 5]) {
    const sums = total(pyramid, 0, 100, most);
    near(sums.get(0), 334 * 0.05);
    near(sums.get(2), 333 * 0.05);
    near(sums.get(3), 0);
  }
});

test("bins are as wide as asked, and none where all are wider", () => {
  const pyramid = new Pyramid(BINS);
  pyramid.add(0, 10.25, 0.5);
  assert.equal(pyramid.level(4.9, LEVEL_OF)?.width, 4);
  assert.equal(pyramid.level(0.9, LEVEL_OF), null);
});

test("a run that goes on widens the bins and keeps the sums", () => {
  const pyramid = new Pyramid(0);
  for (let i = 0; i < 200; i++) pyramid.add(1, i * 0.37, 0.2);
  near(total(pyramid, 0, 100, 1).get(1), 40);
  pyramid.add(1, 5000, 10);
  near(total(pyramid, 0, 6000, 50).get(1), 50);
  near(total(pyramid, 4999, 6000, 50).get(1), 10);
});

test("a span that holds others and comes after them is added, too", () => {
  const pyramid = new Pyramid(10);
  pyramid.add(1, 4, 1);
  near(total(pyramid, 0, 10, 1).get(1), 1);
  pyramid.add(0, 2, 6);
  const sums = total(pyramid, 0, 10, 1);
  near(sums.get(0), 6);
  near(sums.get(1), 1);
});

test("a bin shows the category of the greatest level, among equals the longest, also after more has come", () => {
  const pyramid = new Pyramid(10);
  const shown = (): readonly number[] => {
    const { inner, outer } = pyramid.level(10, LEVEL_OF)!;
    return [inner.kind[0], Math.round(inner.seconds[0] * 1e6) / 1e6, Math.round(outer.seconds[0] * 1e6) / 1e6];
  };
  pyramid.add(0, 0, 0.07);
  pyramid.add(1, 0, 0.02);
  assert.deepEqual(shown(), [1, 0.02, 0.07]);
  pyramid.add(2, 0.02, 0.03);
  assert.deepEqual(shown(), [2, 0.05, 0.07]);
  pyramid.add(3, 0.06, 0.001);
  assert.deepEqual(shown(), [3, 0.051, 0.07]);
});

test("what has no duration is there", () => {
  const pyramid = new Pyramid(10);
  pyramid.add(3, 5, 0);
  assert.deepEqual([...total(pyramid, 0, 10, 1).keys()], [3]);
});

/** Work without a gap, then a pause, and one short span in it; `times` as many spans as pixels. */
function crowd(times: number, width: number): Row[] {
  const spans: Row[] = [];
  const count = times * width;
  for (let i = 0; i < count; i++) spans.push({ lane: 0, kind: i % 3 ? "compute" : "read", start: (i * 60) / count, end: ((i + 1) * 60) / count });
  return [...spans, { lane: 0, kind: "down", start: 80.2, end: 80.2001 }];
}

test("a lane is drawn from sums as from its spans: busy pixels are full, idle ones empty, rare spans seen", () => {
  const width = 100;
  const data = traceOf(["a"], crowd(50, width));
  const [outer, inner] = [new Uint32Array(width), new Uint32Array(width)];
  const rasteriser = new Rasteriser(data.header.kinds, width);
  let asked = 0;
  const pyramid = data.spans.pyramid(0);
  data.spans.pyramid = () => (asked++, pyramid);
  for (const end of [100, 93.7]) {
    assert.ok(rasteriser.lane(data.spans, 0, { start: 0, end }, outer, inner) >= 5000);
    const alpha = [...inner].map((pixel) => pixel >>> 24);
    const [busy, rare] = [Math.floor((60 / end) * width), Math.floor((80.2 / end) * width)];
    assert.deepEqual(alpha.slice(0, busy).filter((value) => value < 230), [], "no gap in what has none");
    const seen = alpha.flatMap((value, x) => (x > busy + 1 && value > 0 ? [x] : []));
    assert.ok(seen.length === 1 && Math.abs(seen[0] - rare) <= 1 && alpha[seen[0]] > 90, "idle time is empty, and a short span in it is seen once");
  }
  assert.equal(asked, 2, "sums are asked for where spans are many");
});
