import assert from "node:assert/strict";
import { test } from "node:test";
import { FixtureSource } from "./fixture_source.ts";
import { OpenSpans } from "./open_spans.ts";

const laneOf = (source: FixtureSource, task: string): number => source.trace(0).header.lanes.indexOf(task);

test("work that goes on begins where the work before it ended, a down time with the crash", async () => {
  const source = new FixtureSource({ workers: 2, end_s: 0.05 });
  await source.send("inject", { fault: { kind: "crash", task: "worker:1", at: 0.012 } });
  source.advance(0.0145);
  const open = new OpenSpans(source).now();
  const down = open.find(({ isDown }) => isDown);
  assert.deepEqual([down?.lane, down?.start, down?.end], [laneOf(source, "worker:1"), 0.012, 0.0145]);
  const work = open.find(({ lane }) => lane === laneOf(source, "worker:0"));
  const { spans } = source.trace(0);
  const last = spans.lastOf(laneOf(source, "worker:0"));
  assert.ok(work && Math.abs(work.start - (spans.start[last] + spans.duration[last])) < 1e-6);
});

test("work does not begin before the task was last seen to do something else", () => {
  const source = new FixtureSource({ workers: 2, end_s: 0.05 });
  const open = new OpenSpans(source);
  const tasks = source.layout.tasks.map(() => "idle" as const);
  source.over = { tasks };
  source.advance(0.02);
  assert.deepEqual(open.now(), []);
  source.over = { tasks: source.layout.tasks.map(() => "computing" as const) };
  source.advance(0.001);
  assert.ok(open.now().every(({ start }) => start >= 0.02));
});
