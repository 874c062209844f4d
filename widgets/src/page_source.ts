// The source of an exported page: the last states of all branches and all rows, without a kernel. The reader may choose
// which branch is shown; everything else that is asked is refused.

import { NO_STATE, type LabState, type Layout, type Reply, type RunState, type Verb } from "./lab_types.ts";
import type { Model } from "./model.ts";
import type { RowsMessage } from "./rows_message.ts";
import { BaseSource } from "./source.ts";

/** A message of rows as a page holds it: its bytes are another value of the state, `bytes` is that one's name. */
export type StoredRows = RowsMessage & { readonly bytes: string };

export class PageSource extends BaseSource {
  readonly canControl = false;
  override readonly whyNot = "This page holds a recorded run. Open its notebook to play it.";
  readonly layout: Layout;
  private last: LabState;
  private readonly states: Readonly<Record<string, Partial<LabState>>>;
  private readonly values = { cursor: null as number | null, view: [] as readonly number[], selection: [] as readonly number[] };

  constructor(model: Model) {
    super();
    this.layout = model.get("layout_of_cluster") as Layout;
    this.last = recorded(model.get("state") as Partial<LabState> | undefined);
    this.states = (model.get("states") as typeof this.states | undefined) ?? {};
    this.values.view = (model.get("view_s") as readonly number[] | undefined) ?? [];
    for (const rows of (model.get("rows") as readonly StoredRows[] | undefined) ?? []) {
      this.addRows(rows, model.get(rows.bytes) as DataView);
    }
  }

  state(): LabState {
    return this.last;
  }

  override canShow(branch: number): boolean {
    return Object.hasOwn(this.states, String(branch));
  }

  send(verb?: Verb, args: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    if (verb === "select_branch" && this.canShow(Number(args["branch"]))) {
      this.last = recorded(this.states[String(args["branch"])]);
      for (const event of ["rows", "state"] as const) this.listeners.say(event);
      return Promise.resolve({ at_s: this.last.now_s });
    }
    return Promise.resolve({ error: this.whyNot });
  }

  cursor(): number | null {
    return this.values.cursor;
  }

  setCursor(time: number | null): void {
    this.put("cursor", time);
  }

  view(): readonly number[] {
    return this.values.view;
  }

  setView(view: readonly number[]): void {
    this.put("view", view);
  }

  selection(): readonly number[] {
    return this.values.selection;
  }

  setSelection(records: readonly number[]): void {
    this.put("selection", records);
  }

  private put<Name extends "cursor" | "view" | "selection">(name: Name, value: (typeof this.values)[Name]): void {
    this.values[name] = value;
    this.listeners.say(name);
  }
}

/** A state as a page shows it, where nothing plays. */
function recorded(given: Partial<LabState> | undefined): LabState {
  const state = { ...NO_STATE, ...given };
  const stopped: RunState = state.state === "playing" ? "paused" : state.state;
  return { ...state, state: stopped };
}
