import assert from "node:assert/strict";
import { test } from "node:test";
import { MARK_KINDS, SPAN_KINDS } from "./fixture_cluster.ts";
import { RowPacker, type Recorded } from "./fixture_rows.ts";
import { FixtureSource } from "./fixture_source.ts";
import { timelineSource } from "./live_timeline.ts";
import { LiveTrace } from "./live_trace.ts";
import { deadSpans, OpenSpans } from "./open_spans.ts";

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

test("a task that will be restarted is down until then", () => {
  const source = new FixtureSource({ workers: 2, end_s: 0.05 });
  source.advance(0.02);
  const of = (state: "down" | "restarting"): unknown => {
    source.over = { tasks: source.layout.tasks.map(({ name }) => (name === "worker:1" ? state : "idle")), since_s: source.layout.tasks.map(() => 0.012) };
    return new OpenSpans(source).now().map(({ lane, start, end, isDown, color }) => [lane, start, end, isDown, color]);
  };
  assert.deepEqual(of("restarting"), of("down"));
  assert.deepEqual((of("restarting") as unknown[][]).map(([lane, start, end, isDown]) => [lane, start, end, isDown]), [[laneOf(source, "worker:1"), 0.012, 0.02, true]]);
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

test("of a branch that is not shown, who is dead for good is known by its crash and by what did not follow", () => {
  const names = (kinds: readonly { readonly name: string }[]): string[] => kinds.map(({ name }) => name);
  const trace = new LiveTrace(["worker:0", "worker:1"], { kinds: SPAN_KINDS, marks: MARK_KINDS });
  const compute = (lane: string, start: number, end: number): Recorded => ({ lane, category: "compute", name: "step", start, end });
  const crash = (lane: string): Recorded => ({ lane, category: "crash", name: "crash", start: 0.3 });
  const rows = [compute("worker:0", 0.1, 0.3), compute("worker:1", 0.1, 0.3), crash("worker:0"), crash("worker:1"), compute("worker:1", 0.5, 0.6)];
  trace.append(...new RowPacker(0, names(SPAN_KINDS), names(MARK_KINDS)).pack(rows));
  const dead = deadSpans(trace, 0.9).map(({ lane, start, end, isDown }) => [lane, start, end, isDown]);
  assert.deepEqual(dead, [[trace.header.lanes.indexOf("worker:0"), 0.3, 0.9, true]]);
});

test("branches side by side have one present to follow and the same bounds", async () => {
  const source = new FixtureSource({ workers: 2, end_s: 0.05 });
  source.advance(0.04);
  await source.send("fork", { t_s: 0.01, without: [] });
  const [shown, other] = [timelineSource(source, { beside: () => 0 }), timelineSource(source, { branch: () => 0 })];
  assert.deepEqual([shown.live?.now(), other.live?.now()], [0.01, 0.01]);
  assert.equal(shown.live?.last(), source.trace(0).header.last_s);
  assert.equal(other.live?.last(), shown.live?.last());
});
