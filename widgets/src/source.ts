// What the views of a running cluster see: its layout, its state, the traces of its branches, and a way to ask for something.
//
// Views know no widget, no kernel and no page: a source stands for all three.

import { Listeners } from "./listeners.ts";
import type { LabState, Layout, Reply, Verb } from "./lab_types.ts";
import { LiveTrace } from "./live_trace.ts";
import type { RowsMessage } from "./rows_message.ts";

export type SourceEvent = "state" | "rows" | "cursor" | "view" | "selection" | "task";

export interface Source {
  readonly layout: Layout;
  /** Whether there is a kernel that can do something; else `whyNot` says why not. */
  readonly canControl: boolean;
  readonly whyNot: string;
  /** Whether a branch that is not shown can be: with a kernel all of them, on a page those that it holds. */
  canShow(branch: number): boolean;
  state(): LabState;
  /** The trace of a branch; it grows, and "rows" is said when it has. */
  trace(branch: number): LiveTrace;
  on(event: SourceEvent, listener: () => void): () => void;
  /** Asks for something; the reply holds `error` where it was refused. It never rejects. `busy` hears why the reply comes late. */
  send(verb: Verb, args?: Readonly<Record<string, unknown>>, busy?: (why: string) => void): Promise<Reply>;
  /** The moment that the reader points at, in seconds. */
  cursor(): number | null;
  setCursor(time: number | null): void;
  /** The moment that a click has chosen: the cursor goes back to it when the pointer leaves. */
  pinned(): number | null;
  pin(time: number | null): void;
  /** The pointer is on a moment; null: on none. */
  pointAt(time: number | null): void;
  /** The task that is chosen in all views of the page, by name. */
  task(): string | null;
  setTask(name: string | null): void;
  /** What is in view, [start, end] in seconds; [] for the whole run. */
  view(): readonly number[];
  setView(view: readonly number[]): void;
  /** How much time is in view while timelines follow the present, in seconds; null: as the pace asks. */
  span(): number | null;
  setSpan(span: number | null): void;
  /** The records that are chosen. */
  selection(): readonly number[];
  setSelection(records: readonly number[]): void;
}

/** What all sources have in common: traces and listeners. */
export abstract class BaseSource implements Source {
  abstract readonly layout: Layout;
  abstract readonly canControl: boolean;
  readonly whyNot: string = "";
  protected readonly listeners = new Listeners<SourceEvent>();
  private followed: number | null = null; // seconds
  private pinnedAt: number | null = null; // seconds
  private chosenTask: string | null = null;
  private readonly traces = new Map<number, LiveTrace>();

  abstract state(): LabState;
  abstract send(verb: Verb, args?: Readonly<Record<string, unknown>>, busy?: (why: string) => void): Promise<Reply>;
  abstract cursor(): number | null;
  abstract setCursor(time: number | null): void;
  abstract view(): readonly number[];
  abstract setView(view: readonly number[]): void;
  abstract selection(): readonly number[];
  abstract setSelection(records: readonly number[]): void;

  canShow(_branch: number): boolean {
    return this.canControl;
  }

  trace(branch: number): LiveTrace {
    const known = this.traces.get(branch);
    if (known) return known;
    const added = new LiveTrace(this.layout.tasks.map(({ name }) => name), this.layout);
    this.traces.set(branch, added);
    return added;
  }

  pinned(): number | null {
    return this.pinnedAt;
  }

  pin(time: number | null): void {
    this.pinnedAt = time;
    this.setCursor(time);
  }

  pointAt(time: number | null): void {
    this.setCursor(time ?? this.pinnedAt);
  }

  task(): string | null {
    return this.chosenTask;
  }

  setTask(name: string | null): void {
    if (name === this.chosenTask) return;
    this.chosenTask = name;
    this.listeners.say("task");
  }

  span(): number | null {
    return this.followed;
  }

  setSpan(span: number | null): void {
    if (span === this.followed) return;
    this.followed = span;
    this.listeners.say("view");
  }

  on(event: SourceEvent, listener: () => void): () => void {
    return this.listeners.on(event, listener);
  }

  protected addRows(message: RowsMessage, bytes: DataView): void {
    this.trace(message.branch).append(message, bytes);
    this.listeners.say("rows");
  }

  protected clearRows(branch: number): void {
    this.trace(branch).clear();
    this.listeners.say("rows");
  }
}
