import assert from "node:assert/strict";
import { test } from "node:test";
import { formatBytes, formatCount, formatDuration, formatEvent, formatFact, formatMoment, formatMomentOf } from "./format.ts";

test("durations have four digits and a fitting unit", () => {
  const values = [0, 2e-9, 1.5e-6, 0.0123456, 0.99999999, 1, 59.5, 12345];
  const texts = ["0 s", "2 ns", "1.5 µs", "12.35 ms", "1 s", "1 s", "59.5 s", "12345 s"];
  assert.deepEqual(values.map(formatDuration), texts);
});

test("moments are in seconds to the nanosecond", () => {
  assert.deepEqual([0, 12, 12.345678, 0.000000001].map(formatMoment), ["0 s", "12 s", "12.345678 s", "0.000000001 s"]);
});

test("bytes use powers of 1024", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 1048575, 26214400].map(formatBytes), [
    "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "25.0 MiB",
  ]);
});

test("counts agree with their nouns", () => {
  assert.deepEqual([formatCount(1, "span"), formatCount(12000, "span")], ["1 span", "12,000 spans"]);
  assert.deepEqual([formatCount(2, "crash"), formatCount(3, "retry"), formatCount(1, "retry"), formatCount(2, "delay")], ["2 crashes", "3 retries", "1 retry", "2 delays"]);
});

test("facts of any type are text", () => {
  assert.deepEqual([1234567, 0.1 + 0.2, "x", true, [1]].map(formatFact), ["1,234,567", "0.3", "x", "true", "[1]"]);
});

test("moments have the unit that fits them, and the digits of what is in view", () => {
  assert.deepEqual(
    [formatMomentOf(0, 0.005), formatMomentOf(0.00165, 0.005), formatMomentOf(12.345678, 0.005), formatMomentOf(0.012345678, 1e-6)],
    ["0 ms", "1.65 ms", "12.345678 s", "12.345678 ms"],
  );
});

test("events that are near each other late in a run are told apart", () => {
  assert.deepEqual([0, 0.03, 0.00635516057, 100.01, 3600.5].map(formatEvent), ["0 s", "30 ms", "6.355161 ms", "100.01 s", "3600.5 s"]);
});
