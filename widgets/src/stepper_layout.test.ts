import assert from "node:assert/strict";
import { test } from "node:test";
import { twoRanks } from "./stepper_fixtures.ts";
import { arrowsOf, layOut, leftOf, placeAt, pointOn, topOf } from "./stepper_layout.ts";

const { header } = twoRanks();

test("the matrix fits its room, and chunks stay as large as they need to be", () => {
  for (const room of [300, 500, 900]) assert.ok(layOut(header, room).width <= room);
  const many = { ...header, num_ranks: 64, num_chunks: 64 };
  assert.ok(layOut(many, 400).cellWidth >= 9);
  assert.ok(layOut(many, 400).width > 400);
});

test("words need room", () => {
  assert.equal(layOut(header, 900).words, true);
  assert.equal(layOut({ ...header, num_ranks: 32, num_chunks: 32 }, 900).words, false);
});

test("a place belongs to the chunk that is drawn there", () => {
  const layout = layOut(header, 700);
  const at = (rank: number, chunk: number, dx: number, dy: number) =>
    placeAt(layout, header, leftOf(layout, chunk) + dx, topOf(layout, rank) + dy);
  assert.deepEqual(at(1, 0, 1, 1), { rank: 1, chunk: 0 });
  assert.deepEqual(at(0, 1, layout.cellWidth - 1, layout.cellHeight - 1), { rank: 0, chunk: 1 });
  assert.deepEqual(at(0, 1, -3, 5), { rank: 0, chunk: -1 });
  assert.equal(placeAt(layout, header, 100, 2), null);
  assert.equal(placeAt(layout, header, 100, layout.height + 5), null);
});

test("arrows leave their source and reach their target, down on the right and up on the left", () => {
  const layout = layOut(header, 700);
  const [down, up] = arrowsOf(layout, header.steps[1].transfers);
  for (const [arrow, source, target] of [[down, 0, 1], [up, 1, 0]] as const) {
    const middle = (rank: number): number => topOf(layout, rank) + layout.cellHeight / 2;
    assert.ok(Math.abs(pointOn(arrow, 0)[1] - middle(source)) < layout.cellHeight / 2);
    assert.ok(Math.abs(pointOn(arrow, 1)[1] - middle(target)) < layout.cellHeight / 2);
  }
  assert.ok(pointOn(down, 0.5)[0] > leftOf(layout, 0) + layout.cellWidth);
  assert.ok(pointOn(up, 0.5)[0] < leftOf(layout, 1));
});

test("an arrow in an outer lane runs further out, inside the room of its column", () => {
  const transfers = [{ source: 0, target: 1, adds: true, chunks: [0, 1], lanes: [0, 3] }];
  const steps = [{ ...header.steps[1], transfers }];
  for (const room of [260, 900]) {
    const layout = layOut({ ...header, steps }, room);
    const out = arrowsOf(layout, transfers).map((arrow) => pointOn(arrow, 0.5)[0] - leftOf(layout, arrow.chunk) - layout.cellWidth);
    assert.ok(out[1] > out[0] && out[0] > 0);
    assert.ok(out[1] <= layout.gutters[1] + 1);
  }
});
