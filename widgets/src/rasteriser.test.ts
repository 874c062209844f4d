import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf, type Row } from "./fixtures.ts";
import { packColor, Rasteriser } from "./rasteriser.ts";

const RGB = 0xffffff;
const COLORS = { closure: "#7a8ca0", read: "#56b4e9", compute: "#0072b2", down: "#d1423f" };

function raster(spans: readonly Row[], width = 10, view = { start: 0, end: 10 }) {
  const data = traceOf(["worker:0"], spans);
  const outer = new Uint32Array(width);
  const inner = new Uint32Array(width);
  const seen = new Rasteriser(data.header.kinds, width).lane(data.spans, 0, view, outer, inner);
  return { outer, inner, seen };
}

function named(pixels: Uint32Array): string[] {
  const names = new Map(Object.entries(COLORS).map(([name, color]) => [packColor(color), name]));
  return [...pixels].map((pixel) => (pixel >>> 24 === 0 ? "." : (names.get(pixel & RGB) ?? "?")));
}

const opacity = (pixel: number): number => (pixel >>> 24) / 255;

test("colours are packed with red in the lowest byte", () => {
  assert.equal(packColor("#102030"), 0x302010);
});

test("a span fills exactly its pixels, the rest stays empty", () => {
  const { inner, seen } = raster([{ lane: 0, kind: "compute", start: 2, end: 4 }]);
  assert.deepEqual(named(inner), [".", ".", "compute", "compute", ".", ".", ".", ".", ".", "."]);
  assert.deepEqual([...inner].slice(2, 4).map(opacity), [1, 1]);
  assert.equal(seen, 1);
});

test("closures go to the outer row and work to the inner one", () => {
  const { outer, inner } = raster([
    { lane: 0, kind: "closure", start: 0, end: 3 },
    { lane: 0, kind: "read", start: 1, end: 2 },
  ]);
  assert.deepEqual(named(outer).slice(0, 4), ["closure", "closure", "closure", "."]);
  assert.deepEqual(named(inner).slice(0, 4), [".", "read", ".", "."]);
});

test("the category that covers most of a pixel is shown", () => {
  const { inner } = raster([
    { lane: 0, kind: "read", start: 1.0, end: 1.3 },
    { lane: 0, kind: "compute", start: 1.3, end: 1.9 },
    { lane: 0, kind: "read", start: 2.0, end: 2.6 },
    { lane: 0, kind: "compute", start: 2.6, end: 2.9 },
  ]);
  assert.deepEqual(named(inner).slice(1, 3), ["compute", "read"]);
});

test("a short down time wins over long work on the same pixel", () => {
  const { inner } = raster([
    { lane: 0, kind: "compute", start: 0, end: 10 },
    { lane: 0, kind: "down", start: 5.01, end: 5.02 },
  ]);
  assert.equal(named(inner)[5], "down");
});

test("a rare short span among idle time stays visible, and so does one without duration", () => {
  const { inner } = raster([
    { lane: 0, kind: "read", start: 3.5, end: 3.5001 },
    { lane: 0, kind: "read", start: 7.5, end: 7.5 },
  ]);
  assert.deepEqual([named(inner)[3], named(inner)[7]], ["read", "read"]);
  assert.ok(opacity(inner[3]) >= 0.39 && opacity(inner[3]) < 0.5);
});

test("a half busy pixel is fainter than a busy one", () => {
  const { inner } = raster([{ lane: 0, kind: "read", start: 1, end: 2.5 }]);
  assert.ok(opacity(inner[1]) === 1 && opacity(inner[2]) > 0.5 && opacity(inner[2]) < 0.9);
});

test("a span that reaches beyond both sides of the view fills it", () => {
  const { inner } = raster([{ lane: 0, kind: "compute", start: -100, end: 100 }]);
  assert.deepEqual(new Set(named(inner)), new Set(["compute"]));
});

test("spans outside the view leave no trace, also after another lane was drawn", () => {
  const data = traceOf(["a", "b"], [
    { lane: 0, kind: "compute", start: 0, end: 10 },
    { lane: 1, kind: "compute", start: 20, end: 30 },
  ]);
  const rasteriser = new Rasteriser(data.header.kinds, 10);
  const [outer, inner] = [new Uint32Array(10), new Uint32Array(10)];
  rasteriser.lane(data.spans, 0, { start: 0, end: 10 }, outer, inner);
  assert.equal(rasteriser.lane(data.spans, 1, { start: 0, end: 10 }, outer, inner), 0);
  assert.deepEqual(new Set(named(inner)), new Set(["."]));
});

test("many overlapping spans add up like one", () => {
  const spans = Array.from({ length: 500 }, () => ({ lane: 0, kind: "compute", start: 2, end: 8 }));
  assert.deepEqual(named(raster(spans).inner), named(raster([spans[0]]).inner));
});
