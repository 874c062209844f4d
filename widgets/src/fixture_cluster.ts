// A cluster for tests and for the contact sheet: tasks in racks with their positions, links, kinds of faults.

import type { FaultKind, Hub, Layout, LinkSpec, Parameter, Task } from "./lab_types.ts";
import type { Kind, MarkKind } from "./trace_data.ts";

const OCTAGON = "M-2.9 -7L2.9 -7L7 -2.9L7 2.9L2.9 7L-2.9 7L-7 2.9L-7 -2.9Z";
const DIAMOND = "M0 -7.8L7.8 0L0 7.8L-7.8 0Z";
const CIRCLE = "M7 0C7 3.87 3.87 7 0 7C-3.87 7 -7 3.87 -7 0C-7 -3.87 -3.87 -7 0 -7C3.87 -7 7 -3.87 7 0Z";

export const SPAN_KINDS: readonly Kind[] = [
  { name: "closure", color: "#7a8ca0", level: 0 },
  { name: "read", color: "#56b4e9", level: 1 },
  { name: "compute", color: "#0072b2", level: 1 },
  { name: "update", color: "#009e73", level: 1 },
  { name: "wait", color: "#d9d9d9", level: 0 },
  { name: "down", color: "#d1423f", level: 3 },
];
export const MARK_KINDS: readonly MarkKind[] = [
  { name: "crash", color: "#e0424e", level: 3, body: OCTAGON, sign: "M-3 -3L3 3M3 -3L-3 3" },
  { name: "pause", color: "#e0424e", level: 3, body: OCTAGON, sign: "M-2 -3L-2 3M2 -3L2 3" },
  { name: "slow", color: "#e0424e", level: 3, body: OCTAGON, sign: "M-3 0L3 0" },
  { name: "partition", color: "#e0424e", level: 3, body: DIAMOND, sign: "M0 -4L0 4" },
  { name: "retry", color: "#9e66c1", level: 2, body: CIRCLE, sign: "M-3 0L3 0M0 -3L3 0L0 3" },
  { name: "restart", color: "#1c8d54", level: 1, body: CIRCLE, sign: "M0 3.5L0 -3.5M-3 -.6L0 -3.6L3 -.6" },
];

const NOTHING = { unit: "", optional: false, default: null, choices: [], at_least: null, at_most: null, above: null, below: null, whole: false };

/** A declared parameter; what is not said is as unbounded as can be. */
export function parameter(name: string, type: Parameter["type"], says: string, rest: Partial<Parameter> = {}): Parameter {
  return { ...NOTHING, name, type, says, ...rest };
}

const UNTIL = parameter("until", "number", "a virtual second, or None for ever", { unit: "s", optional: true, at_least: 0 });
const RESTART = parameter("restart_after", "number", "the time until it is up again", { unit: "s", optional: true, at_least: 0 });
const TASK = parameter("task", "task", "whom it hits");
const BETWEEN = [parameter("source", "tasks", "who sends"), parameter("target", "tasks", "to whom")];

export const FAULTS: readonly FaultKind[] = [
  { kind: "crash", says: "The process ends at once; what it computed is lost.", parameters: [TASK, RESTART] },
  { kind: "lose_host", says: "The machine is lost, with all of its tasks.", parameters: [TASK, RESTART] },
  { kind: "slow", says: "Everything takes longer.", parameters: [TASK, parameter("factor", "number", "on the time of what it computes", { default: 3, above: 0 }), UNTIL] },
  { kind: "pause", says: "The process stands still, and answers nothing.", parameters: [TASK, UNTIL] },
  { kind: "partition", says: "Messages between two sides are lost.", parameters: [
    parameter("a", "tasks", "one side"),
    parameter("b", "tasks", "the other side"),
    parameter("one_way", "switch", "only what a sends to b is lost", { default: false }),
    UNTIL,
  ] },
  { kind: "drop", says: "Some messages are lost.", parameters: [
    ...BETWEEN,
    parameter("message", "choice", "which messages", { optional: true, choices: ["read", "update", "heartbeat"] }),
    parameter("probability", "number", "that it befalls a message", { default: 1, above: 0, at_most: 1 }),
  ] },
];
export const TRIGGERS: readonly Parameter[] = [
  parameter("at", "number", "a virtual second", { unit: "s", optional: true, at_least: 0 }),
  parameter("after_steps", "number", "steps of the first task", { optional: true, at_least: 1, whole: true }),
];

/** The layout of a cluster with a chief, parameter servers and workers in racks of eight. */
export function fixtureLayout(workers: number, servers = Math.max(1, Math.ceil(workers / 4))): Layout {
  const perRack = Math.max(4, Math.ceil(workers / Math.ceil(workers / 8)));
  const racks = Math.ceil(workers / perRack);
  const tasks: Task[] = [{ name: "chief:0", job: "chief", host: "chief:0", rack: -1, x: 0.5, y: 0.07 }];
  for (let i = 0; i < servers; i++) tasks.push({ name: `ps:${i}`, job: "ps", host: `ps:${i}`, rack: -1, x: (i + 1) / (servers + 1), y: 0.28 });
  for (let i = 0; i < workers; i++) {
    const [rack, place] = [Math.floor(i / perRack), i % perRack];
    const columns = Math.ceil(perRack / (racks > 3 ? 4 : 2));
    const x = (rack + (Math.floor(place % columns) + 0.5) / columns) / racks;
    const y = 0.68 + 0.26 * (Math.floor(place / columns) / Math.max(1, Math.ceil(perRack / columns) - 1 || 1));
    tasks.push({ name: `worker:${i}`, job: "worker", host: `worker:${i}`, rack, x: 0.03 + 0.94 * x, y });
  }
  const hubs: Hub[] = [{ name: "core", x: 0.5, y: 0.42 }];
  const links: LinkSpec[] = [];
  for (let rack = 0; rack < racks; rack++) {
    hubs.push({ name: `rack ${rack}`, x: (rack + 0.5) / racks, y: 0.54 });
    links.push({ source: `rack ${rack}`, target: "core", bandwidth_bytes_per_s: 5e9 });
  }
  for (const task of tasks) links.push({ source: task.name, target: task.rack < 0 ? "core" : `rack ${task.rack}`, bandwidth_bytes_per_s: 1.25e9 });
  const split = { kind: "partition", a: tasks.slice(-2).map(({ name }) => name), b: tasks.slice(0, 2).map(({ name }) => name), until: 0.05 };
  const presets = [
    { name: "Split the workers", faults: [split] },
    { name: "A straggler", faults: [{ kind: "slow", task: "worker:1", factor: 4 }] },
    { name: "Two crashes at once", faults: ["worker:0", "worker:2"].map((task) => ({ kind: "crash", task, restart_after: 0.01 })) },
  ];
  const is_grid = tasks.length > 200;
  const shown = is_grid ? inGrid(tasks) : tasks;
  return { version: 1, tasks: shown, is_grid, links: is_grid ? [] : links, hubs: is_grid ? [] : hubs, kinds: SPAN_KINDS, marks: MARK_KINDS, faults: FAULTS, triggers: TRIGGERS, presets };
}

function inGrid(tasks: readonly Task[]): Task[] {
  const columns = Math.ceil(Math.sqrt(tasks.length * 1.6));
  const rows = Math.ceil(tasks.length / columns);
  return tasks.map((task, index) => ({ ...task, x: ((index % columns) + 0.5) / columns, y: (Math.floor(index / columns) + 0.5) / rows }));
}
