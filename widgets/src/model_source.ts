// The source on the model of a widget: traits for what is small, messages for rows, and for what is asked of the kernel.
//
// One source serves all views of a model, so that rows are decoded once. Numbers of requests begin at a random one: a
// reply goes to every page that shows the model, and only the one that asked must take it.

import { NO_STATE, type LabState, type Layout, type Reply, type Verb } from "./lab_types.ts";
import type { Model } from "./model.ts";
import type { RowsMessage } from "./rows_message.ts";
import { BaseSource, type SourceEvent } from "./source.ts";

type Message = RowsMessage | { readonly kind: "busy"; readonly id: number; readonly text: string } | { readonly kind: "clear"; readonly branch: number } | ({ readonly kind: "reply"; readonly id: number } & Reply);

const SAVE_AFTER_MS = 120;

export class ModelSource extends BaseSource {
  readonly canControl: boolean;
  override readonly whyNot: string;
  readonly layout: Layout;
  private readonly waiting = new Map<number, (reply: Reply) => void>();
  private readonly busy = new Map<number, (why: string) => void>();
  private next = Math.floor(Math.random() * 2 ** 40) * 4096;
  private saving: ReturnType<typeof setTimeout> | undefined;
  private isResending = false;
  private known: { readonly from: Partial<LabState> | undefined; readonly state: LabState } = { from: undefined, state: NO_STATE };
  private isCleared = false;

  constructor(private readonly model: Model) {
    super();
    this.layout = model.get("layout_of_cluster") as Layout;
    this.canControl = "pace" in ((model.get("state") as object | undefined) ?? {}); // else it is the picture of a moment
    this.whyNot = this.canControl ? "" : "This is one moment of a cluster. In a Lab it can be played, and broken.";
    model.on("msg:custom", (message, buffers) => this.receive(message as Message, (buffers ?? []) as DataView[]));
    for (const [trait, event] of [["state", "state"], ["cursor_s", "cursor"], ["view_s", "view"], ["selected", "selection"]] as const) {
      model.on(`change:${trait}`, () => this.changed(event));
    }
    if (!this.canControl) return;
    this.readStored();
    this.resend();
  }

  /** Takes the rows that were stored with the model: all there are in a notebook that was saved, until a kernel sends others. */
  private readStored(): void {
    const { rows = [] } = (this.model.get("stored") ?? {}) as { readonly rows?: readonly (RowsMessage & { readonly data: DataView })[] };
    for (const message of rows) this.addRows(message, message.data);
  }

  state(): LabState {
    const state = this.model.get("state") as Partial<LabState> | undefined;
    if (this.known.from !== state) this.known = { from: state, state: { ...NO_STATE, ...state } };
    return this.known.state;
  }

  send(verb: Verb, args: Readonly<Record<string, unknown>> = {}, busy?: (why: string) => void): Promise<Reply> {
    if (!this.canControl) return Promise.resolve({ error: this.whyNot });
    const id = this.next++;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      if (busy) this.busy.set(id, busy);
      this.model.send?.({ id, verb, ...args });
    });
  }

  cursor(): number | null {
    return (this.model.get("cursor_s") as number | null | undefined) ?? null;
  }

  setCursor(time: number | null): void {
    this.put("cursor_s", time);
  }

  view(): readonly number[] {
    return (this.model.get("view_s") as readonly number[] | undefined) ?? [];
  }

  setView(view: readonly number[]): void {
    this.put("view_s", view);
  }

  selection(): readonly number[] {
    return (this.model.get("selected") as readonly number[] | null | undefined) ?? [];
  }

  setSelection(records: readonly number[]): void {
    this.put("selected", records);
  }

  private put(trait: string, value: unknown): void {
    this.model.set(trait, value);
    this.saving ||= setTimeout(() => {
      this.saving = undefined;
      this.model.save_changes(); // not with every movement of the pointer
    }, SAVE_AFTER_MS);
  }

  /** Rows that were cleared are shown as such with the next state: until then, those that follow are under way. */
  private changed(event: SourceEvent): void {
    if (event === "state" && this.isCleared) {
      this.isCleared = false;
      this.listeners.say("rows");
    }
    this.listeners.say(event);
  }

  private receive(message: Message, buffers: readonly DataView[]): void {
    if (message.kind === "clear") {
      this.isCleared = true;
      return this.trace(message.branch).clear();
    }
    if (message.kind === "rows") return this.receiveRows(message, buffers[0]);
    if (message.kind === "busy") return this.busy.get(message.id)?.(message.text);
    const resolve = this.waiting.get(message.id);
    this.busy.delete(message.id);
    this.waiting.delete(message.id);
    resolve?.(message);
  }

  private receiveRows(message: RowsMessage, bytes: DataView): void {
    if (message.from_row === this.trace(message.branch).arrived) this.addRows(message, bytes);
    else if (!this.isResending) this.resend(); // a message was lost, or belongs to a run that was cleared
  }

  private resend(): void {
    this.isResending = true;
    void this.send("resend").then(() => (this.isResending = false));
  }
}

const sources = new WeakMap<Model, ModelSource>();

/** The source of a model: the same one for all its views. */
export function sourceOfModel(model: Model): ModelSource {
  const source = sources.get(model) ?? new ModelSource(model);
  sources.set(model, source);
  return source;
}
