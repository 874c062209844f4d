import assert from "node:assert/strict";
import { test } from "node:test";
import { axis, centreOn, fit, inside, pan, roundStep, zoom } from "./time_scale.ts";

const BOUNDS = { start: 0, end: 100 };
const labels = (start: number, end: number, width = 400): string[] =>
  axis({ start, end }, width).ticks.map((tick) => tick.label);

test("fit shows the whole run with a margin, also a run without length", () => {
  assert.deepEqual(fit(0, 100), { start: -1.5, end: 101.5 });
  assert.ok(fit(3, 3).end > fit(3, 3).start);
});

test("zoom keeps the moment under the pointer", () => {
  const view = zoom(BOUNDS, 0.5, 25, BOUNDS);
  assert.deepEqual(view, { start: 12.5, end: 62.5 });
});

test("zooming out stops at the bounds", () => {
  assert.deepEqual(zoom({ start: 90, end: 100 }, 100, 95, BOUNDS), BOUNDS);
});

test("zooming in stops where doubles can still tell moments apart", () => {
  let view = BOUNDS;
  for (let i = 0; i < 200; i++) view = zoom(view, 0.5, 50, BOUNDS);
  assert.ok(view.end - view.start >= 0.99e-8);
  assert.ok(view.start < view.end);
});

test("pan moves by the difference and stops at the bounds with its length kept", () => {
  assert.deepEqual(pan({ start: 10, end: 20 }, 5, BOUNDS), { start: 15, end: 25 });
  assert.deepEqual(pan({ start: 10, end: 20 }, 500, BOUNDS), { start: 90, end: 100 });
  assert.deepEqual(pan({ start: 10, end: 20 }, -500, BOUNDS), { start: 0, end: 10 });
});

test("centring puts a moment in the middle, or as near as the bounds allow", () => {
  assert.deepEqual(centreOn({ start: 0, end: 10 }, 50, BOUNDS), { start: 45, end: 55 });
  assert.deepEqual(centreOn({ start: 0, end: 10 }, 1, BOUNDS), { start: 0, end: 10 });
});

test("a view wider than the bounds becomes the bounds", () => {
  assert.deepEqual(inside({ start: -50, end: 500 }, BOUNDS), BOUNDS);
});

test("steps are 1, 2 or 5 times a power of ten", () => {
  assert.deepEqual([0.0011, 0.003, 0.7, 1, 1.5, 30, 99].map(roundStep), [0.002, 0.005, 1, 1, 2, 50, 100]);
});

test("labels have the unit that fits the view", () => {
  assert.deepEqual(labels(0, 4), ["0 s", "1 s", "2 s", "3 s", "4 s"]);
  assert.deepEqual(labels(0, 0.4), ["0 ms", "100 ms", "200 ms", "300 ms", "400 ms"]);
  assert.deepEqual(labels(0, 4e-6), ["0 µs", "1 µs", "2 µs", "3 µs", "4 µs"]);
  assert.deepEqual(labels(0, 4e-8), ["0 ns", "10 ns", "20 ns", "30 ns", "40 ns"]);
});

test("labels far from the start are relative to a base, so that they stay short", () => {
  const far = axis({ start: 12.345678, end: 12.345682 }, 400);
  assert.equal(far.base, "12.345 s");
  assert.deepEqual(far.ticks.map((tick) => tick.label), ["+678 µs", "+679 µs", "+680 µs", "+681 µs", "+682 µs"]);
});

test("labels of one axis all differ, at any zoom and any place", () => {
  for (const start of [0, 0.5, 3.25, 1234.5]) {
    for (let length = 100; length > 1e-7; length /= 3) {
      const found = labels(start, start + length);
      assert.equal(new Set(found).size, found.length, `${start} + ${length}: ${found.join(", ")}`);
      assert.ok(found.length >= 1 && found.length <= 6);
    }
  }
});

test("zero is never negative", () => {
  assert.ok(!labels(-0.05, 4).includes("-0 s"));
});
