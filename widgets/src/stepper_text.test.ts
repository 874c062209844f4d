import assert from "node:assert/strict";
import { test } from "node:test";
import { twoRanks } from "./stepper_fixtures.ts";
import { summary } from "./stepper_frame.ts";
import { COMPLETE, pieces } from "./stepper_painter.ts";
import { aboutRank, facts, label, progress } from "./stepper_text.ts";

test("a chunk says how many ranks it holds, or its value", () => {
  const [plain, valued] = [twoRanks(), twoRanks(true)];
  assert.deepEqual([0, 1].map((moment) => label(plain, plain.chunk(moment, 1, 0))), ["1 of 2", "sum"]);
  assert.deepEqual([0, 1].map((moment) => label(valued, valued.chunk(moment, 1, 0))), ["10", "11"]);
});

test("a sum with a rank too often is not called a sum", () => {
  const data = twoRanks();
  assert.equal(label(data, { ...data.chunk(2, 0, 0), complete: false }), "added twice");
});

test("where nothing is summed, a chunk says where it came from", () => {
  const data = twoRanks(false, 0, { sums: false });
  assert.equal(label(data, data.chunk(0, 1, 0)), "from 1");
  assert.equal(label(data, data.chunk(1, 0, 0)), "");
  assert.deepEqual(pieces(data, data.chunk(1, 0, 0)), []);
});

test("a chunk is filled by the colours of its ranks, each in its own place", () => {
  const data = twoRanks();
  assert.deepEqual(pieces(data, data.chunk(0, 1, 0)), [{ from: 0.5, to: 1, color: "#e69f00" }]);
  assert.deepEqual(pieces(data, data.chunk(1, 1, 0)), [{ from: 0, to: 1, color: COMPLETE }]);
});

test("progress is told with what it will be in the end", () => {
  const told = progress(twoRanks(), 1).map(({ value, part }) => [value, part]);
  assert.deepEqual(told, [
    ["500 ms of 1 s", 0.5],
    ["2.0 KiB of 4.0 KiB", 0.5],
    ["1.0 KiB of 2.0 KiB", 0.5],
    ["2 of 4", 0.5],
  ]);
});

test("sums are counted of those that there should be, also where none becomes whole", () => {
  const [, , , sums] = progress(twoRanks(false, 0, { steps: twoRanks().header.steps.map((step) => ({ ...step, complete: 0 })) }), 2);
  assert.deepEqual([sums.value, sums.part], ["0 of 4", 0]);
});

test("a followed rank says what it sends, gets and holds", () => {
  assert.equal(
    aboutRank(twoRanks(), 1, 0),
    "Rank 0 sends chunk 0 to rank 1; gets chunk 1 from rank 1 and adds it to its own; holds 1 of 2 sums.",
  );
  assert.equal(aboutRank(twoRanks(), 0, 0), "Rank 0 holds 0 of 2 sums.");
});

test("the card of a chunk tells its transfers of this step", () => {
  const [{ title, facts: told }] = facts(twoRanks(), 1, 0, 0);
  assert.equal(title, "rank 0, chunk 0");
  assert.deepEqual(told.map(([name]) => name), ["data of ranks", "size", "sent", "needed"]);
  const [{ facts: other }] = facts(twoRanks(true), 1, 1, 0);
  assert.deepEqual(other, [
    ["data of ranks", "0, 1 (2 of 2)"],
    ["value", "11"],
    ["size", "1.0 KiB"],
    ["received", "from rank 0, added"],
  ]);
});

test("the first line names the collective and its size", () => {
  assert.equal(summary(twoRanks()), "Ring all-reduce: 2 ranks, 2.0 KiB each in 2 chunks, 2 steps");
});
