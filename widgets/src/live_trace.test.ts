import assert from "node:assert/strict";
import { test } from "node:test";
import { chartsOf } from "./chart_data.ts";
import { MARK_KINDS, SPAN_KINDS } from "./fixture_cluster.ts";
import { RowPacker, type Recorded } from "./fixture_rows.ts";
import { PAGE } from "./live_table.ts";
import { LiveTrace, STALENESS } from "./live_trace.ts";
import type { Pyramid } from "./pyramid.ts";
import { RecentMean } from "./recent_mean.ts";
import { Rasteriser } from "./rasteriser.ts";

const KINDS = [...SPAN_KINDS, { name: "apply", color: "#808080", level: 1 }, { name: "input", color: "#808080", level: 1 }];
const STYLES = { kinds: KINDS, marks: MARK_KINDS };

function traceOf(batches: readonly (readonly Recorded[])[], tasks = ["worker:0"]): LiveTrace {
  const names = (kinds: readonly { readonly name: string }[]): string[] => kinds.map(({ name }) => name);
  const packer = new RowPacker(0, names(KINDS), names(MARK_KINDS));
  const trace = new LiveTrace(tasks, STYLES);
  for (const batch of batches) trace.append(...packer.pack(batch));
  return trace;
}

function span(lane: string, start: number, end: number, category = "compute"): Recorded {
  return { lane, category, name: category, start, end };
}

/** Starts of a lane, walked along in both directions. */
function starts({ spans }: LiveTrace, lane: number): number[] {
  const forwards: number[] = [];
  for (let row = spans.firstAfter(lane, -1); row >= 0; row = spans.next(row, 1)) forwards.push(spans.start[row]);
  const backwards: number[] = [];
  for (let row = spans.lastOf(lane); row >= 0; row = spans.next(row, -1)) backwards.push(spans.start[row]);
  assert.deepEqual(backwards.reverse(), forwards);
  return forwards;
}

test("rows of a lane are in order of start, however they arrive", () => {
  const count = 5 * PAGE + 7;
  const shuffled = Array.from({ length: count }, (_, i) => span("worker:0", (i * 7919) % count, ((i * 7919) % count) + 0.5));
  const trace = traceOf([shuffled.slice(0, 900), shuffled.slice(900)]);
  assert.deepEqual(starts(trace, 0), Array.from({ length: count }, (_, i) => i));
  assert.equal(trace.spans.count, count);
  shuffled.forEach(({ start }, record) => assert.equal(trace.spans.start[trace.find(record)?.row ?? -1], start));
});

test("an outer span that is recorded last comes before what it holds", () => {
  const trace = traceOf([[span("worker:0", 1, 2), span("worker:0", 2, 3), span("worker:0", 1, 3, "closure")]]);
  const row = trace.spans.firstAfter(0, 0);
  assert.equal(trace.header.kinds[trace.spans.kind[row]].name, "closure");
});

test("stretches hold all rows that touch a window, and skip pages that end before it", () => {
  const rows = Array.from({ length: 4 * PAGE }, (_, i) => span("worker:0", i, i + 0.5));
  const long = span("worker:0", 10.2, 4 * PAGE, "closure");
  const seen = (batch: Recorded[]): number[] => {
    const found: number[] = [];
    const { spans } = traceOf([batch]);
    spans.stretches(0, 3 * PAGE + 5, 3 * PAGE + 7, (from, to) => {
      for (let row = from; row < to; row++) found.push(spans.start[row]);
    });
    return found;
  };
  assert.ok(seen(rows).length <= PAGE);
  assert.ok([5, 6, 7].every((i) => seen(rows).includes(3 * PAGE + i)));
  assert.ok(seen([...rows, long]).includes(10.2));
});

test("lanes are shown in the order of tasks, with their devices, and keep their rows when others come", () => {
  const trace = traceOf([[span("worker:1", 1, 2)], [span("worker:0/gpu:0", 3, 4), span("chief:0", 5, 6), span("disk", 0, 1)]], ["chief:0", "worker:0", "worker:1", "worker:2"]);
  assert.deepEqual(trace.header.lanes, ["chief:0", "worker:0", "worker:0/gpu:0", "worker:1", "worker:2", "disk"]);
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((lane) => starts(trace, lane)), [[5], [], [3], [1], [], [0]]);
  assert.equal(trace.spans.laneOf(trace.spans.lastOf(3)), 3);
});

test("events, down times, counters and causes are kept while rows move", () => {
  const records: Recorded[] = [
    { lane: "worker:0", category: "crash", name: "crash of worker:0", start: 2 },
    { lane: "worker:0", category: "down", name: "down", start: 2, end: 5, cause: 0 },
    { lane: "chief:0", category: "", name: "loss", start: 3, value: 0.5 },
    { lane: "chief:0", category: "retry", name: "retry", start: 1 },
    span("worker:0", 0, 6, "closure"),
  ];
  const trace = traceOf([records]);
  assert.deepEqual([...trace.eventRows()].map((row) => trace.names[trace.instants.name[row]]), ["retry", "crash of worker:0"]);
  const [down] = trace.downRows();
  assert.equal(trace.names[trace.spans.name[down]], "down");
  assert.deepEqual(trace.spans.facts(down), { cause: "crash of worker:0, 2 s" });
  assert.equal(trace.series.get("chief:0\nloss")?.at(3.5), 0.5);
  assert.equal(trace.find(2), null);
});

test("a cleared trace takes rows from zero again; a gap is an error that says what to do", () => {
  const trace = traceOf([[span("worker:0", 1, 2)]]);
  trace.clear();
  assert.equal(trace.spans.count, 0);
  assert.deepEqual(trace.header.lanes, ["worker:0"]);
  const packer = new RowPacker(0, ["compute"], []);
  packer.pack([span("worker:0", 0, 1)]);
  assert.throws(() => trace.append(...packer.pack([span("worker:0", 1, 2)])), /send resend/);
});

test("the raster of a growing trace is that of the same rows in any order", () => {
  const rows = Array.from({ length: 2000 }, (_, i) => span("worker:0", i / 1000, (i + 0.8) / 1000, i % 3 ? "compute" : "read"));
  const draw = (trace: LiveTrace): number[] => {
    const [outer, inner] = [new Uint32Array(300), new Uint32Array(300)];
    new Rasteriser(SPAN_KINDS, 300).lane(trace.spans, 0, { start: 0.1, end: 1.7 }, outer, inner);
    return [...inner];
  };
  assert.deepEqual(draw(traceOf([[...rows].reverse()])), draw(traceOf([rows])));
});

test("sums of groups that are narrower than a pixel stand for their rows", () => {
  const rows = Array.from({ length: 64_000 }, (_, i) => span("worker:0", i / 1000, (i + 0.8) / 1000, i % 3 ? "compute" : "read"));
  const { spans } = traceOf([rows]);
  spans.pyramid = () => ({ level: () => null }) as unknown as Pyramid; // as where its bins are too wide
  const raster = (): Uint32Array => {
    const [outer, inner] = [new Uint32Array(400), new Uint32Array(400)];
    assert.ok(new Rasteriser(SPAN_KINDS, 400).lane(spans, 0, { start: 0, end: 64 }, outer, inner) >= rows.length - 32);
    return inner;
  };
  const summed = raster();
  spans.groups.prepare = () => false;
  raster().forEach((pixel, x) => {
    assert.equal(pixel & 0xffffff, summed[x] & 0xffffff);
    assert.ok(Math.abs((pixel >>> 24) - (summed[x] >>> 24)) <= 40, `pixel ${x}`);
  });
});

test("sums that were asked for early know the rows that came later", () => {
  const levels = new Uint8Array(SPAN_KINDS.length).fill(1);
  const sums = (trace: LiveTrace): readonly number[] => {
    const level = trace.spans.pyramid(trace.header.lanes.indexOf("worker:0")).level(2, levels);
    return level ? level.sums.map((bins) => bins?.reduce((sum, one) => sum + one, 0) ?? 0) : [];
  };
  const spans = Array.from({ length: 600 }, (_, i): Recorded => ({ lane: "worker:0", category: i % 2 ? "read" : "compute", name: "step", start: i, end: i + 0.5 }));
  const names = (kinds: readonly { readonly name: string }[]): string[] => kinds.map(({ name }) => name);
  const grow = (looksEarly: boolean): LiveTrace => {
    const trace = new LiveTrace(["worker:0"], { kinds: SPAN_KINDS, marks: MARK_KINDS });
    const packer = new RowPacker(0, names(KINDS), names(MARK_KINDS));
    for (const part of [spans.slice(0, 100), spans.slice(100)]) {
      trace.append(...packer.pack(part));
      if (looksEarly) sums(trace);
    }
    return trace;
  };
  const [early, late] = [sums(grow(true)), sums(grow(false))];
  assert.ok(early.length > 0 && Math.abs(early.reduce((sum, one) => sum + one, 0) - 300) < 1e-3);
  early.forEach((seconds, kind) => assert.ok(Math.abs(seconds - late[kind]) < 1e-3));
});

test("the staleness of updates is a series: the mean of the last ones, until a rewind", () => {
  const update = (end: number, staleness = NaN): Recorded => ({ ...span("ps:0", end - 1, end, "apply"), staleness });
  const trace = traceOf([[update(1, 4), span("worker:0", 0, 2), update(2, 2)], [update(3), update(4, 0)]]);
  assert.deepEqual(trace.series.get(`\n${STALENESS}`)?.points(100), { times: [1, 2, 4], values: [4, 3, 2] });
  assert.deepEqual(chartsOf({ trace, now: 4, isOver: true }).map(({ name }) => name), [STALENESS, "busy workers"]);
  trace.clear();
  assert.equal(trace.series.size, 0);
});

test("only the last updates count, however many there were", () => {
  const recent = new RecentMean(3);
  assert.deepEqual([9, 0, 0, 3, 6].map((value) => recent.add(value)), [9, 4.5, 3, 1, 3]);
});

test("busy workers are those of all workers that work: no wait for input, and nothing twice", () => {
  const share = (batch: readonly Recorded[], tasks: readonly string[]): number => {
    const { times, values } = traceOf([batch], [...tasks]).busyShares(8);
    return values.reduce((sum, value) => sum + value, 0) / times.length;
  };
  const near = (found: number, expected: number): void => assert.ok(Math.abs(found - expected) < 0.01, `${found} ${expected}`);
  const workers = ["chief:0", "worker:0", "worker:1", "worker:2", "worker:3"];
  near(share([span("worker:0", 0, 6, "input"), span("worker:0", 6, 8)], ["worker:0"]), 0.25);
  near(share([span("worker:0", 0, 8)], workers), 0.25);
  near(share([span("worker:0", 0, 4), span("worker:0", 2, 6, "update"), span("worker:0", 0, 6, "read"), span("chief:0", 0, 8)], ["chief:0", "worker:0"]), 0.75);
  near(share([span("worker:0/gpu:0", 0, 8), span("worker:0/gpu:1", 0, 8, "wait"), span("worker:0", 0, 8, "wait")], ["worker:0"]), 0.5);
  near(share([span("worker:0/network", 2, 6, "update"), span("worker:0", 0, 4)], ["worker:0"]), 0.75);
  near(share([span("worker:0", 0, 8, "wait")], workers), 0);
});
