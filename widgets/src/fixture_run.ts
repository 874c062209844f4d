// A small made-up training run: workers that read, compute and update, and faults that disturb them.
//
// It is a function of its commands alone, so that going back, and forking, are computing it again. It models nothing:
// it gives the views what they would have to show.

import type { Fault, Flight, Queue, TaskState } from "./lab_types.ts";
import type { Recorded } from "./fixture_rows.ts";

export interface Timed {
  readonly at_s: number;
  readonly fault: Fault;
}

interface Span {
  readonly lane: string;
  readonly state: TaskState;
  readonly start: number;
  readonly end: number;
}

const READ_S = 0.0009;
const COMPUTE_S = 0.0034;
const UPDATE_S = 0.0011;
const PARAMETERS = 4_200_000; // bytes
const STATE_OF = { read: "reading", compute: "computing", update: "updating", down: "down" } as const;

/** A number in [0, 1) that depends on its arguments alone. */
function noise(a: number, b: number): number {
  const value = Math.sin(a * 127.1 + b * 311.7 + 0.7) * 43758.5453;
  return value - Math.floor(value);
}

export class FixtureRun {
  readonly records: Recorded[] = []; // in order of recording
  readonly flights: Flight[] = [];
  private readonly spans: Span[] = [];
  private readonly steps: number[] = [];

  constructor(
    private readonly tasks: readonly string[],
    readonly commands: readonly Timed[],
    readonly end: number,
  ) {
    const servers = tasks.filter((task) => task.startsWith("ps"));
    tasks.forEach((task, index) => task.startsWith("worker") && this.work(task, index, servers[index % servers.length]));
    this.addCounters();
    this.records.sort((a, b) => (a.end ?? a.start) - (b.end ?? b.start));
    this.steps.sort((a, b) => a - b);
  }

  /** How many records had been made at a moment. */
  recordsAt(time: number): number {
    const first = this.records.findIndex((record) => (record.end ?? record.start) > time);
    return first < 0 ? this.records.length : first;
  }

  stepsAt(time: number): number {
    return this.steps.filter((step) => step <= time).length;
  }

  /** The moment of the next step after a time. */
  nextStep(time: number): number {
    return this.steps.find((step) => step > time + 1e-12) ?? this.end;
  }

  nextRecord(time: number): number {
    const next = this.records.find((record) => (record.end ?? record.start) > time + 1e-12);
    return next ? (next.end ?? next.start) : this.end;
  }

  tasksAt(time: number): TaskState[] {
    const now = new Map(this.spans.filter(({ start, end }) => start <= time && time < end).map((span) => [span.lane, span.state]));
    return this.tasks.map((task) => {
      const fault = this.commands.findLast(({ at_s, fault }) => fault["task"] === task && at_s <= time)?.fault;
      const state = now.get(task) ?? (task.startsWith("worker") ? "waiting" : "idle");
      if (state === "down") return state;
      return fault?.kind === "slow" ? "slow" : fault?.kind === "pause" ? "paused" : state;
    });
  }

  flightsAt(time: number): Flight[] {
    return this.flights.filter(({ started_s, ends_s }) => started_s <= time && time < (ends_s ?? 0)).slice(0, 200);
  }

  queueAt(time: number): Queue {
    const running = this.spans.filter(({ start, end, state }) => state === "computing" && start <= time && time < end);
    const done = this.stepsAt(time);
    const given = running.map(({ lane }, index) => ({ number: done + index, worker: lane }));
    const waiting = Math.max(0, 24 - (done % 24));
    const rest = Array.from({ length: Math.min(waiting, 20) }, (_, index) => ({ number: done + given.length + index, worker: null }));
    return { waiting, in_flight: given.length, closures: [...given, ...rest] };
  }

  private work(task: string, index: number, server: string): void {
    let [time, step, done] = [0.0004 * noise(index, 3), 0, 0];
    while (time < this.end) {
      const slow = this.commands.findLast(({ at_s, fault }) => fault.kind === "slow" && fault["task"] === task && at_s <= time);
      const factor = slow ? Number(slow.fault["factor"] ?? 3) : 1;
      const begin = time;
      const crash = this.crashOf(task, done);
      for (const [kind, base] of [["read", READ_S], ["compute", COMPUTE_S * factor], ["update", UPDATE_S]] as const) {
        const end = time + base * (0.8 + 0.5 * noise(index * 17 + base * 1e5, step));
        if (crash && crash.at_s < end) break;
        this.span(task, kind, `${kind} ${step}`, time, end);
        if (kind !== "compute") {
          const [source, target] = kind === "read" ? [server, task] : [task, server];
          this.flights.push({ source, target, kind, bytes: PARAMETERS, started_s: time, ends_s: end });
          this.span(server, kind === "read" ? "read" : "update", `${kind} of ${task}`, time + (end - time) * 0.4, end - (end - time) * 0.3);
        }
        time = end;
      }
      if (crash && crash.at_s <= time + COMPUTE_S * factor * 1.4) {
        done += 1;
        time = this.down(task, crash);
        continue;
      }
      this.records.push({ lane: task, category: "closure", name: `closure #${step * 8 + index}`, start: begin, end: time });
      this.steps.push(time);
      step += 1;
      time += 0.0003 * noise(index, step + 100);
    }
  }

  private crashOf(task: string, done: number): Timed | undefined {
    const hits = ({ fault }: Timed): boolean => (fault.kind === "crash" || fault.kind === "lose_host") && fault["task"] === task;
    return this.commands.filter(hits)[done];
  }

  private down(task: string, { at_s, fault }: Timed): number {
    const after = typeof fault["restart_after"] === "number" ? fault["restart_after"] : null;
    const end = after === null ? this.end : at_s + after;
    this.records.push({ lane: task, category: "crash", name: `crash of ${task}`, start: at_s });
    this.records.push({ lane: "chief:0", category: "retry", name: `retry of the closure of ${task}`, start: at_s + 0.0012 });
    this.span(task, "down", `${task} is down`, at_s, end);
    if (after !== null) this.records.push({ lane: task, category: "restart", name: `restart of ${task}`, start: end });
    return end;
  }

  private span(lane: string, kind: keyof typeof STATE_OF, name: string, start: number, end: number): void {
    this.records.push({ lane, category: kind, name, start, end });
    this.spans.push({ lane, state: STATE_OF[kind], start, end });
  }

  private addCounters(): void {
    [...this.steps].sort((a, b) => a - b).forEach((start, index) => {
      const loss = 2.3 * Math.exp(-index / 260) + 0.12 + 0.09 * noise(index, 5);
      this.records.push({ lane: "chief:0", category: "", name: "loss", start, value: loss });
      this.records.push({ lane: "chief:0", category: "", name: "queue", start, value: Math.max(0, 24 - (index % 24)) });
    });
  }
}
