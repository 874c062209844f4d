// A source for tests and for the contact sheet: plays a made-up run in the page, without a kernel.

import { fixtureLayout } from "./fixture_cluster.ts";
import { RowPacker } from "./fixture_rows.ts";
import { FixtureRun, type Timed } from "./fixture_run.ts";
import { NO_STATE, type Branch, type Command, type Fault, type LabState, type Layout, type Reply, type RunState, type Verb } from "./lab_types.ts";
import { BaseSource } from "./source.ts";

const STORY = {
  phases: [
    { name: "detection", seconds: 5e-5, cost_s: 0 },
    { name: "restoration", seconds: 0.00095, cost_s: 4e-4 },
    { name: "afterwards", seconds: 0.0326, cost_s: 0.00179 },
  ],
  cost_s: 0.00219,
  rows: [["fault", "a crash of worker:1"], ["repeated", "4 steps"], ["lost", "0.000905 s of work under way"]],
};
const TICK_S = 0.05; // real seconds

interface Life {
  run: FixtureRun;
  packer: RowPacker;
  sent: number;
  now: number;
  state: RunState;
  readonly name: string;
  readonly from: number | null;
  readonly at: number | null;
}

export interface FixtureOptions {
  readonly workers?: number;
  readonly end_s?: number;
  readonly layout?: Layout;
  readonly canControl?: boolean;
}

export class FixtureSource extends BaseSource {
  readonly canControl: boolean;
  override readonly whyNot: string;
  readonly layout: Layout;
  readonly asked: { verb: Verb; args: Readonly<Record<string, unknown>> }[] = []; // what views have sent
  refusal = ""; // of everything that is sent
  isSilent = false; // and answers nothing
  over: Partial<LabState> = {}; // laid over the state, for tests
  private readonly lives: Life[] = [];
  private known: { readonly key: string; readonly state: LabState } | null = null;
  private readonly end: number;
  private branch = 0;
  private pace = 0.01;
  private timer = 0;
  private values = { cursor: null as number | null, view: [] as readonly number[], selection: [] as readonly number[] };
  private readonly log: string[] = [];

  constructor({ workers = 8, end_s = 0.25, layout, canControl = true }: FixtureOptions = {}) {
    super();
    this.canControl = canControl;
    this.whyNot = canControl ? "" : "This page holds a recorded run. Open its notebook to play it.";
    this.layout = layout ?? fixtureLayout(workers);
    this.end = end_s;
    this.lives.push(this.begin("main", [], null, null));
  }

  state(): LabState {
    const life = this.lives[this.branch];
    const key = [this.branch, life.now, life.state, this.pace, this.lives.length, this.log.length, life.run.commands.length, JSON.stringify(this.over).length].join();
    if (this.known?.key !== key) this.known = { key, state: this.stateNow() };
    return this.known.state;
  }

  private stateNow(): LabState {
    const { run, now, state } = this.lives[this.branch];
    const plan = run.commands.map(({ fault, at_s }) => ({
      description: `${fault.kind}${fault["task"] ? ` of ${String(fault["task"])}` : ""}`,
      status: now >= at_s ? ("fired" as const) : ("pending" as const),
      fired_s: now >= at_s ? at_s : null,
      healed_s: null,
      fault,
    }));
    const done = run.stepsAt(now);
    return {
      ...NO_STATE,
      branch: this.branch,
      now_s: now,
      state,
      events: run.recordsAt(now) * 2,
      steps: done,
      closures: done,
      pace: this.pace,
      rewind_real_s: now * 12,
      branches: this.lives.map((life, number) => this.branchOf(life, number)),
      commands: run.commands.map((command): Command => ({ ...command, python: pythonOf(command.fault), status: now >= command.at_s ? "done" : "pending" })),
      faults: plan,
      log: this.log,
      output: Array.from({ length: Math.floor(done / 40) }, (_, i) => `step ${(i + 1) * 40}  loss ${(2.3 * Math.exp(-i / 6)).toFixed(4)}\n`).join(""),
      tasks: run.tasksAt(now),
      queue: run.queueAt(now),
      flights: run.flightsAt(now),
      loads: Object.fromEntries(this.layout.links.map(({ source, target }, i) => [`${source} -> ${target}`, (Math.sin(now * 900 + i) + 1) / 2])),
      ...this.over,
    };
  }

  send(verb: Verb, args: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    this.asked.push({ verb, args });
    if (this.isSilent) return new Promise(() => {});
    if (this.refusal) return Promise.resolve({ error: this.refusal });
    const extra = this.obey(verb, args);
    this.listeners.say("state");
    return Promise.resolve({ at_s: this.lives[this.branch].now, ...extra });
  }

  /** Lets virtual time pass, as the kernel does while it plays. */
  advance(seconds: number): void {
    this.moveTo(this.lives[this.branch], this.lives[this.branch].now + seconds);
    this.listeners.say("state");
  }

  cursor = (): number | null => this.values.cursor;
  view = (): readonly number[] => this.values.view;
  selection = (): readonly number[] => this.values.selection;
  setCursor = (cursor: number | null): void => this.put({ cursor }, "cursor");
  setView = (view: readonly number[]): void => this.put({ view }, "view");
  setSelection = (selection: readonly number[]): void => this.put({ selection }, "selection");

  private put(values: Partial<typeof this.values>, event: "cursor" | "view" | "selection"): void {
    this.values = { ...this.values, ...values };
    this.listeners.say(event);
  }

  private obey(verb: Verb, args: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    const life = this.lives[this.branch];
    const pace = Number(args["pace"] ?? this.pace);
    if (verb === "play" || verb === "set_pace") this.pace = pace;
    if (verb === "play") this.play();
    if (verb === "pause") this.pause();
    if (verb === "step") this.moveTo(life, args["events"] ? life.run.nextRecord(life.now) : life.run.nextStep(life.now));
    if (verb === "seek") this.seek(life, Number(args["t_s"]));
    if (verb === "advance") this.moveTo(life, this.end);
    if (verb === "inject") this.inject(life, [args["fault"] as Fault]);
    if (verb === "plan") this.inject(life, args["faults"] as Fault[]);
    if (verb === "fork") this.fork(life, Number(args["t_s"]), (args["without"] ?? []) as number[]);
    if (verb === "select_branch") this.branch = Number(args["branch"]);
    if (verb === "compare") return { text: "The runs are the same until the crash of worker:1.", same_until_s: life.at ?? 0.02 };
    if (verb === "recover") return { recovery: STORY };
    return {};
  }

  private play(): void {
    this.lives[this.branch].state = "playing";
    clearInterval(this.timer);
    this.timer = window.setInterval(() => this.advance(this.pace * TICK_S), TICK_S * 1000);
  }

  private pause(): void {
    clearInterval(this.timer);
    this.lives[this.branch].state = "paused";
  }

  private seek(life: Life, time: number): void {
    this.log.push(`session.${time < life.now ? "rewind(" : "advance(until="}${time.toPrecision(6)})`);
    if (time < life.now) this.again(life, life.run.commands, time);
    else this.moveTo(life, time);
  }

  private inject(life: Life, faults: readonly Fault[]): void {
    for (const fault of faults) this.log.push(pythonOf(fault));
    const added = faults.map((fault) => ({ at_s: Number(fault["at"] ?? life.now + 1e-6), fault }));
    this.again(life, [...life.run.commands, ...added], life.now);
  }

  private fork(life: Life, time: number, without: readonly number[]): void {
    const commands = life.run.commands.filter((_, index) => !without.includes(index));
    this.lives.push(this.begin(`fork ${this.lives.length}`, commands, this.branch, time));
    this.branch = this.lives.length - 1;
    this.moveTo(this.lives[this.branch], time);
  }

  private begin(name: string, commands: readonly Timed[], from: number | null, at: number | null): Life {
    const run = new FixtureRun(this.layout.tasks.map((task) => task.name), commands, this.end);
    return { run, packer: this.packer(this.lives.length), sent: 0, now: 0, state: "paused", name, from, at };
  }

  private again(life: Life, commands: readonly Timed[], time: number): void {
    life.run = new FixtureRun(this.layout.tasks.map((task) => task.name), commands, this.end);
    life.packer = this.packer(this.branch);
    life.sent = 0;
    this.clearRows(this.branch);
    this.moveTo(life, time);
  }

  private packer(branch: number): RowPacker {
    const names = (kinds: readonly { readonly name: string }[]): string[] => kinds.map(({ name }) => name);
    return new RowPacker(branch, names(this.layout.kinds), names(this.layout.marks));
  }

  private moveTo(life: Life, time: number): void {
    life.now = Math.min(time, this.end);
    if (life.now >= this.end) {
      clearInterval(this.timer);
      life.state = "finished";
    } else if (life.state === "finished") life.state = "paused";
    const due = life.run.recordsAt(life.now);
    if (due > life.sent) this.addRows(...life.packer.pack(life.run.records.slice(life.sent, due)));
    life.sent = due;
  }

  private branchOf({ name, now, state, run, from, at }: Life, number: number): Branch {
    return { number, name, now_s: now, state, commands: run.commands.length, forked_from: from, forked_at_s: at };
  }
}

function pythonOf(fault: Fault): string {
  return `session.inject(${JSON.stringify(fault)})`;
}
