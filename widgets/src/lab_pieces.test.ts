import assert from "node:assert/strict";
import { test } from "node:test";
import { BusyBins } from "./busy_bins.ts";
import { Covered } from "./covered.ts";
import { rangeOf, timeTicks } from "./chart.ts";
import { chartsOf, endOf, formatValue, shownTime, valueAt } from "./chart_data.ts";
import { clock, nextPace, paceInWords, roughly, secondsOf, whyNoMoment } from "./clock.ts";
import { Series } from "./counters.ts";
import { afterGrowth, following, liveBounds } from "./live_view.ts";
import { SPAN_KINDS } from "./fixture_cluster.ts";
import { FixtureSource } from "./fixture_source.ts";
import { inkOn } from "./theme.ts";
import { colorOf, outline, STATES, styleOf } from "./task_states.ts";
import { cut, sentence } from "./words.ts";

test("figures of the clock stand still while time goes on", () => {
  assert.deepEqual([0, 0.0123456, 0.0999].map((now) => clock(now, 0.1)), [["0.000", "ms"], ["12.346", "ms"], ["99.900", "ms"]]);
  assert.deepEqual(clock(1.5, 20), ["1.500", "s"]);
});

test("paces go up and down by one, two, five", () => {
  assert.deepEqual([0.002, 0.0008454].map(paceInWords), ["2 ms a second", "850 µs a second"]);
  let pace = 0.001;
  const seen = Array.from({ length: 4 }, () => (pace = nextPace(pace, 1)));
  assert.deepEqual(seen, [0.002, 0.005, 0.01, 0.02]);
  assert.equal(nextPace(0.003, -1), 0.002);
  assert.equal(nextPace(0.01, -1), 0.005);
});

test("a moment that is typed is in seconds, unless it names a unit", () => {
  assert.deepEqual(["0.0075", "7.5 ms", "7,5ms", " 12 us ", "1e-3", "2."].map(secondsOf), [0.0075, 0.0075, 0.0075, 12e-6, 1e-3, 2]);
  assert.deepEqual(["", "soon", "-1", "3 h", "1.2.3"].map(secondsOf), [null, null, null, null, null]);
  assert.deepEqual(["1,000", "1,000 ms", "12,345,678", "1,000.5"].map(secondsOf), [null, null, null, null]);
  assert.deepEqual(["0,125", "1,25", "1,0000", "1000"].map(secondsOf), [0.125, 1.25, 1, 1000]);
  assert.match(whyNoMoment(" 1,000 ms "), /two ways: write 1000 or 1\.000 without a comma/);
  assert.match(whyNoMoment("1,000.5"), /two ways: write 1000\.5 without/);
  assert.match(whyNoMoment("soon"), /Write seconds/);
});

test("real time is said roughly", () => {
  assert.deepEqual([0.01, 0.44, 12.4].map(roughly), ["at once", "about 0.4 s", "about 12 s"]);
});

test("the window follows the present, and begins at zero while that is near", () => {
  assert.deepEqual(following(0.1, 5), { start: 0, end: 5 });
  const { start, end } = following(10, 5);
  assert.ok(start < 10 && 10 < end && Math.abs(end - start - 5) < 1e-9);
  assert.ok(liveBounds(10, 10, 5).end >= end);
});

test("a view of the whole run grows with it, another one stays", () => {
  const bounds = { start: 0, end: 20 };
  assert.equal(afterGrowth({ start: 0, end: 10 }, true, bounds), bounds);
  assert.deepEqual(afterGrowth({ start: 2, end: 4 }, false, bounds), { start: 2, end: 4 });
});

test("every state has a shape and a letter of its own, and an unknown one looks idle", () => {
  assert.equal(new Set(STATES.map(({ letter }) => letter)).size, STATES.length);
  assert.ok(STATES.every(({ shape }) => outline(shape, 10).endsWith("Z")));
  assert.equal(styleOf("dancing").state, "idle");
});

test("the letter of a state can be read on its colour, by everybody", () => {
  const channel = (hex: string, at: number): number => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  const luminance = (hex: string): number => 0.2126 * channel(hex, 1) + 0.7152 * channel(hex, 3) + 0.0722 * channel(hex, 5);
  for (const style of STATES.filter(({ look }) => look === "filled")) {
    const color = colorOf(style, { kinds: SPAN_KINDS });
    const [light, dark] = [luminance(color), luminance(inkOn(color))].sort((a, b) => b - a);
    assert.ok((light + 0.05) / (dark + 0.05) >= 3.9, `${style.state}: ${(light + 0.05) / (dark + 0.05)}`);
  }
});

test("a thinned series keeps its ends and extremes", () => {
  const series = new Series("chief:0", "loss");
  for (let i = 0; i < 10_000; i++) series.append(i, i === 5432 ? 99 : i % 7);
  const { times, values } = series.points(200);
  assert.ok(times.length <= 210);
  assert.ok(values.includes(99));
  assert.deepEqual([times[0], times.at(-1), values.at(-1)], [0, 9999, 9999 % 7]);
  assert.deepEqual(series.points(200, 4997.5, 5001).values, [4997, 4998, 4999, 5000, 5001, 5002].map((i) => i % 7), "few are all drawn");
  assert.deepEqual([series.at(-1), series.at(5432.5), series.at(1e9)], [null, 99, 9999 % 7]);
});

test("busy shares are those of the spans, however often bins were doubled", () => {
  const bins = new BusyBins(1e-3);
  for (let i = 0; i < 1000; i++) {
    bins.add("worker:0", i, 0.5);
    bins.add("worker:1", i, 0.25);
  }
  const { values } = bins.shares(1000, 2);
  assert.ok(values.every((value) => Math.abs(value - 0.375) < 0.03), values.join());
});

test("time that several spans of a lane cover counts once, in whatever order they come", () => {
  let state = 7;
  const random = (): number => (state = (state * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 50; round++) {
    const covered = new Covered();
    const isCovered = new Array<boolean>(200).fill(false);
    for (let i = 0; i < 30; i++) {
      const start = Math.floor(random() * 200);
      const end = Math.min(200, start + Math.floor(random() * 40));
      let expected = 0;
      for (let tick = start; tick < end; tick++) if (!isCovered[tick]) [isCovered[tick], expected] = [true, expected + 1];
      const found = covered.add(start, end).reduce((sum, [from, to]) => sum + to - from, 0);
      assert.equal(found, expected);
    }
  }
  const long = new Covered();
  for (let i = 0; i < 1000; i++) assert.deepEqual(long.add(2 * i, 2 * i + 1), [[2 * i, 2 * i + 1]]);
  assert.deepEqual(long.add(0, 1), [], "what is long past counts as covered");
});

test("the value beside a chart is that at the moment that is pointed at", () => {
  const line = { label: "q", times: [1, 2, 4], values: [10, 20, 40], isOther: false };
  assert.deepEqual([0, 1, 2.9, 3.9].map((time) => valueAt(line, time, true)), [null, 10, 20, 20]);
  assert.deepEqual([0, 1.4, 1.6, 3.9, 9].map((time) => valueAt(line, time, false)), [10, 10, 20, 40, 40]);
  assert.deepEqual([formatValue(0.5, true), formatValue(1234, false), formatValue(0.12345, false), formatValue(null, false)], ["50 %", "1,234", "0.123", "–"]);
});

test("a narrow chart has more than one label of time, and values of zero stand on a scale up to 1", () => {
  for (const end of [0.0049, 0.0075, 0.012, 1.9]) assert.ok(timeTicks({ start: 0, end }, 150).length >= 2, String(end));
  assert.deepEqual([rangeOf(null, 0, 0), rangeOf(null, null, null)[0]], [[0, 1], 0]);
});

test("charts end with the present, or with the last record of a run that is over", () => {
  const source = new FixtureSource({ workers: 2, end_s: 0.05 });
  source.advance(0.04);
  const trace = source.trace(0);
  const { last_s } = trace.header;
  assert.deepEqual([endOf({ trace, now: 1, isOver: false }), endOf({ trace, now: 1, isOver: true })], [1, last_s]);
  const busyUntil = (isOver: boolean): number => chartsOf({ trace, now: 0.04, isOver }).at(-1)?.lines[0].times.at(-1) ?? 0;
  assert.ok(busyUntil(true) > busyUntil(false) && busyUntil(true) > 0.036, `${busyUntil(true)} ${busyUntil(false)}`);
  assert.deepEqual(shownTime([], 3), { start: 0, end: 3 });
  assert.deepEqual([shownTime([1, 9], 3), shownTime([-1, 2], 3), shownTime([4, 5], 3)], [{ start: 1, end: 3 }, { start: 0, end: 2 }, { start: 4, end: 5 }]);
});

test("texts are cut, and names of the engine are written as words", () => {
  assert.equal(cut("x".repeat(999)).length, 300);
  assert.equal(sentence("lose_host"), "Lose host");
});
