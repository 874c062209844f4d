import assert from "node:assert/strict";
import { test } from "node:test";
import { traceOf } from "./fixtures.ts";
import type { Hit } from "./hit_test.ts";
import { nextEvent, nextSpan, atHit } from "./walk.ts";

const spans = [0, 1].flatMap((lane) => [0, 10, 20, 30].map((start) => ({ lane, kind: "compute", start, end: start + 8 })));
const DATA = traceOf(["worker:0", "worker:1"], spans, [
  { lane: 0, kind: "crash", start: 12 },
  { lane: 0, kind: "restart", start: 20 },
  { lane: 1, kind: "retry", start: 15 },
  { lane: 1, kind: "place", start: 16 },
]);
const EVENTS = DATA.eventRows(); // rows 0 (12 s), 2 (15 s), 1 (20 s)

function span(lane: number, row: number): Hit {
  return { sort: "span", lane, row, outer: -1 };
}

function event(lane: number, row: number): Hit {
  return { sort: "instants", lane, row, rows: [row] };
}

test("the next span is that after the chosen one, and there is none after the last", () => {
  const from = (row: number, step: 1 | -1): number => nextSpan(DATA, 0, atHit(DATA, span(0, row)), step, 25);
  assert.deepEqual([from(0, 1), from(2, -1), from(3, 1), from(0, -1)], [1, 1, -1, -1]);
});

test("from an event, the next span is the first that begins then or later, wherever the view begins", () => {
  const crash = atHit(DATA, event(0, 0));
  assert.deepEqual([nextSpan(DATA, 0, crash, 1, 0), nextSpan(DATA, 0, crash, -1, 0)], [2, 1]);
  assert.equal(nextSpan(DATA, 0, atHit(DATA, event(0, 1)), 1, 0), 2);
});

test("in another lane it goes on at the same time", () => {
  assert.equal(nextSpan(DATA, 1, atHit(DATA, span(0, 2)), 1, 0), 6);
});

test("while nothing was chosen, spans and events begin with the view", () => {
  assert.deepEqual([nextSpan(DATA, 0, null, 1, 15), nextSpan(DATA, 0, null, -1, 15)], [2, 1]);
  assert.deepEqual([nextEvent(DATA, EVENTS, null, 1, 13), nextEvent(DATA, EVENTS, null, -1, 13)], [2, 0]);
});

test("the next event goes on from the event at hand, around the end", () => {
  const from = (row: number, step: 1 | -1): number => nextEvent(DATA, EVENTS, atHit(DATA, event(0, row)), step, 0);
  assert.deepEqual([from(0, 1), from(2, 1), from(1, 1), from(0, -1)], [2, 1, 0, 1]);
});

test("from a span or a note, the next event is the next in time", () => {
  assert.equal(nextEvent(DATA, EVENTS, atHit(DATA, span(0, 1)), 1, 0), 0);
  assert.equal(nextEvent(DATA, EVENTS, atHit(DATA, event(1, 3)), 1, 0), 1);
  assert.equal(nextEvent(DATA, EVENTS, atHit(DATA, event(1, 3)), -1, 0), 2);
  assert.equal(nextEvent(DATA, EVENTS, atHit(DATA, span(0, 3)), 1, 0), 0);
});

test("a trace without events has no next one", () => {
  assert.equal(nextEvent(DATA, new Uint32Array(0), null, 1, 0), -1);
});
