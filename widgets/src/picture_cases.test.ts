// The same table is read by tests/widgets/test_picture_equals_view.py, which tries it on the static picture.

import assert from "node:assert/strict";
import { test } from "node:test";
import cases from "../../tests/widgets/picture_cases.json";
import { KINDS } from "./fixtures.ts";
import { formatBytes } from "./format.ts";
import { laneLabel } from "./labels.ts";
import { layOutMarks } from "./marks.ts";
import { axis } from "./time_scale.ts";
import { decode, type ColumnPlace, type TraceData } from "./trace_data.ts";

/** A trace with one lane that has instants at these times, of these levels. */
function instantsAt(times: readonly number[], levels: readonly number[]): TraceData {
  const marks = [0, 1, 2, 3].map((level) => ({ name: `${level}`, color: "#000000", level, body: "", sign: "" }));
  const columns: Record<string, ColumnPlace> = {};
  const bytes: number[] = [];
  const add = (name: string, dtype: ColumnPlace["dtype"], array: ArrayBufferView & { readonly length: number }): void => {
    columns[name] = { dtype, offset: bytes.length, length: array.length };
    bytes.push(...new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    while (bytes.length % 8) bytes.push(0);
  };
  add("names", "utf8", new TextEncoder().encode('["instant"]'));
  for (const [prefix, starts, kinds] of [["span", [], []], ["instant", times, levels]] as const) {
    add(`${prefix}_lane_first`, "u4", Uint32Array.of(0, starts.length));
    add(`${prefix}_start`, "f8", Float64Array.from(starts));
    add(`${prefix}_duration`, "f4", new Float32Array(starts.length));
    add(`${prefix}_name`, "u4", new Uint32Array(starts.length));
    add(`${prefix}_kind`, "u1", Uint8Array.from(kinds));
    for (const name of ["fact_row", "fact_end"]) add(`${prefix}_${name}`, "u4", new Uint32Array(0));
  }
  const header = { version: 2, lanes: ["worker:0"], kinds: KINDS, marks, first_s: 0, last_s: 100, columns };
  return decode({ ...header, facts_left_out: 0, not_restarted: 0, empty_text: "" }, new DataView(Uint8Array.from(bytes).buffer));
}

for (const { start_s, end_s, width_px, base, labels } of cases.axis) {
  test(`the axis from ${start_s} s to ${end_s} s`, () => {
    const found = axis({ start: start_s, end: end_s }, width_px);
    assert.deepEqual([found.base, found.ticks.map(({ label }) => label)], [base, labels]);
  });
}

test("lanes have these labels", () => {
  const found = cases.lane_labels.map(({ lane }) => ({ lane, text: laneLabel(lane).text, is_part: laneLabel(lane).isPart }));
  assert.deepEqual(found, cases.lane_labels);
});

for (const { about, x_px, levels, marks } of cases.groups) {
  test(`groups of marks: ${about}`, () => {
    const found = layOutMarks(instantsAt(x_px, levels), 0, { start: 0, end: 100 }, 100);
    assert.deepEqual(found.map(({ row, rows }) => [row, rows]), marks);
  });
}

test("amounts have these units", () => {
  assert.deepEqual(cases.bytes.map(({ bytes }) => formatBytes(bytes)), cases.bytes.map(({ text }) => text));
});
