// What the kernel says about a running cluster: its layout, which never changes, and its state, which does many times a second.

import type { Kind, MarkKind } from "./trace_data.ts";

export type TaskState =
  | "idle"
  | "reading"
  | "computing"
  | "updating"
  | "waiting"
  | "down"
  | "restarting"
  | "slow"
  | "paused"
  | "cut off";

export interface Task {
  readonly name: string;
  readonly job: string;
  readonly host: string;
  readonly rack: number;
  readonly x: number; // 0 to 1
  readonly y: number;
}

export interface Hub {
  readonly name: string;
  readonly x: number;
  readonly y: number;
}

export interface LinkSpec {
  readonly name?: string; // what `loads` calls it; default "source -> target"
  readonly source: string;
  readonly target: string;
  readonly bandwidth_bytes_per_s: number;
}

/** What a parameter of a fault takes; forms are built from it. */
export interface Parameter {
  readonly name: string;
  readonly says: string;
  readonly unit: string;
  readonly type: "task" | "tasks" | "number" | "choice" | "switch";
  readonly optional: boolean;
  readonly default: unknown;
  readonly choices: readonly string[];
  readonly at_least: number | null;
  readonly at_most: number | null;
  readonly above: number | null;
  readonly below: number | null;
  readonly whole: boolean;
}

export type Fault = Readonly<Record<string, unknown>> & { readonly kind: string };

export interface FaultKind {
  readonly kind: string;
  readonly says?: string;
  readonly parameters: readonly Parameter[];
}

export interface Layout {
  readonly version: number;
  readonly tasks: readonly Task[];
  readonly is_grid: boolean;
  readonly links: readonly LinkSpec[];
  readonly hubs: readonly Hub[];
  readonly kinds: readonly Kind[];
  readonly marks: readonly MarkKind[];
  readonly faults: readonly FaultKind[];
  readonly triggers: readonly Parameter[];
  readonly presets: readonly { readonly name: string; readonly faults: readonly Fault[] }[];
}

export type RunState = "paused" | "playing" | "finished" | "failed" | "closed";

export interface Branch {
  readonly number: number;
  readonly name: string;
  readonly now_s: number;
  readonly state: RunState;
  readonly commands: number;
  readonly forked_from: number | null;
  readonly forked_at_s: number | null;
}

export interface Command {
  readonly at_s: number;
  readonly fault: Fault;
  readonly python: string;
  readonly status: "pending" | "done";
}

export interface PlannedFault {
  readonly description: string;
  readonly status: "pending" | "fired" | "healed" | "never";
  readonly fired_s: number | null;
  readonly healed_s: number | null;
  readonly fault: Fault;
}

export interface Flight {
  readonly source: string;
  readonly target: string;
  readonly kind: string;
  readonly bytes: number;
  readonly started_s: number;
  readonly ends_s?: number | null;
}

export interface Queue {
  readonly waiting: number;
  readonly in_flight: number;
  readonly closures: readonly { readonly number: number; readonly worker: string | null; readonly name?: string }[];
}

export interface LabState {
  readonly branch: number;
  readonly now_s: number;
  readonly state: RunState;
  readonly message: string;
  readonly events: number;
  readonly steps: number;
  readonly closures: number;
  readonly pace: number; // virtual seconds a real second
  readonly rewind_real_s: number;
  readonly branches: readonly Branch[];
  readonly commands: readonly Command[];
  readonly faults: readonly PlannedFault[];
  readonly log: readonly string[];
  readonly output: string;
  readonly tasks: readonly TaskState[];
  readonly since_s: readonly (number | null)[]; // when each task came into its state; null: not known
  readonly queue: Queue | null;
  readonly flights: readonly Flight[];
  readonly loads: Readonly<Record<string, number>>;
}

export interface Reply {
  readonly error?: string;
  readonly [key: string]: unknown;
}

export type Verb =
  | "play"
  | "pause"
  | "set_pace"
  | "step"
  | "seek"
  | "advance"
  | "inject"
  | "fork"
  | "select_branch"
  | "close_branch"
  | "compare"
  | "plan"
  | "resend"
  | "recover";

/** The state before the kernel has said anything. */
export const NO_STATE: LabState = {
  branch: 0,
  now_s: 0,
  state: "paused",
  message: "",
  events: 0,
  steps: 0,
  closures: 0,
  pace: 1,
  rewind_real_s: 0,
  branches: [],
  commands: [],
  faults: [],
  log: [],
  output: "",
  tasks: [],
  since_s: [],
  queue: null,
  flights: [],
  loads: {},
};
