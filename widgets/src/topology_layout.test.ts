import assert from "node:assert/strict";
import { test } from "node:test";
import { fixtureLayout } from "./fixture_cluster.ts";
import { dotRadius, Glide, progress, slowest } from "./flights.ts";
import { along, lineWidth, nameOf, place, Ways } from "./topology_layout.ts";

const LAYOUT = fixtureLayout(16);

test("tasks fill the box, inside its borders, and do not touch", () => {
  for (const workers of [2, 8, 40, 150]) {
    const layout = fixtureLayout(workers);
    const { tasks, radius } = place(layout, 520, 320);
    assert.ok(tasks.every(({ x, y }) => x >= radius && x <= 520 - radius && y >= radius && y <= 320 - radius), `${workers} workers`);
    const gaps = tasks.flatMap((a, i) => tasks.slice(i + 1).map((b) => Math.hypot(a.x - b.x, a.y - b.y)));
    assert.ok(workers > 40 || Math.min(...gaps) > 2 * radius, `${workers} workers`);
  }
});

test("names are whole where there is room, numbers where there is less, and nothing where there is none", () => {
  const labels = (workers: number, width: number): string | undefined => place(fixtureLayout(workers), width, 320).labels.at(-1);
  assert.equal(labels(4, 520), "worker:3");
  assert.equal(labels(16, 420), "15");
  assert.equal(labels(150, 420), "");
});

test("tasks on one line stand in the middle", () => {
  const tasks = [0.2, 0.8].map((x, i) => ({ name: `worker:${i}`, job: "worker", host: "", rack: 0, x, y: 0.5 }));
  const points = place({ tasks, hubs: [] }, 400, 300).tasks;
  assert.equal(points[0].y, points[1].y);
  assert.ok(Math.abs(points[0].y - 150) < 20);
});

test("messages take the fewest links, and a straight way where none lead there", () => {
  const ways = new Ways(LAYOUT.links);
  assert.deepEqual(ways.between("worker:0", "ps:0"), ["worker:0", "rack 0", "core", "ps:0"]);
  assert.deepEqual(ways.between("worker:0", "worker:1"), ["worker:0", "rack 0", "worker:1"]);
  assert.deepEqual(ways.between("worker:0", "nobody"), ["worker:0", "nobody"]);
});

test("a point along a way is at its part of the whole length", () => {
  const way = [{ x: 0, y: 0 }, { x: 30, y: 0 }, { x: 30, y: 10 }];
  assert.deepEqual([0, 0.5, 0.75, 1].map((part) => along(way, part)), [{ x: 0, y: 0 }, { x: 20, y: 0 }, { x: 30, y: 0 }, { x: 30, y: 10 }]);
  assert.deepEqual(along([{ x: 5, y: 5 }, { x: 5, y: 5 }], 0.5), { x: 5, y: 5 });
});

test("a line is wider for more bandwidth; its name is that of its ends unless it has one", () => {
  const links = [1, 4, 16].map((n) => ({ source: "a", target: "b", bandwidth_bytes_per_s: n * 1e9 }));
  const widths = links.map((link) => lineWidth(link, links));
  assert.ok(widths[0] < widths[1] && widths[1] < widths[2]);
  assert.equal(nameOf(links[0]), "a -> b");
  assert.equal(nameOf({ ...links[0], name: "a/out" }), "a/out");
});

test("a message is where its time says; without a known end it never arrives", () => {
  const flight = { source: "a", target: "b", kind: "read", bytes: 1e6, started_s: 1, ends_s: 3 };
  assert.deepEqual([0, 1, 2, 3, 9].map((now) => progress(flight, now, 1)), [0, 0, 0.5, 1, 1]);
  const open = { ...flight, ends_s: null };
  assert.ok(Math.abs(progress(open, 1.0005, 1e9) - 0.5) < 1e-9);
  assert.equal(progress(open, 9, 1e9), 0.92);
  assert.ok(dotRadius(1e9) > dotRadius(1e3));
});

test("the slowest link of a way counts, in either direction", () => {
  const links = [
    { source: "a", target: "hub", bandwidth_bytes_per_s: 5 },
    { source: "b", target: "hub", bandwidth_bytes_per_s: 3 },
    { source: "c", target: "hub", bandwidth_bytes_per_s: 1 },
  ];
  assert.equal(slowest(["a", "hub", "b"], links), 3);
});

test("the screen goes from state to state in the time between them, and jumps back at once", () => {
  const glide = new Glide();
  glide.follow(0, 10, true);
  glide.follow(1, 10.1, false);
  assert.ok(Math.abs(glide.at(10.15) - 0.5) < 1e-9);
  assert.equal(glide.at(10.3), 1);
  glide.follow(0.2, 10.35, false);
  assert.equal(glide.at(10.35), 0.2);
  assert.equal(glide.isMoving(10.35), false);
});
