import assert from "node:assert/strict";
import { test } from "node:test";
import { fixtureLayout, MARK_KINDS, SPAN_KINDS } from "./fixture_cluster.ts";
import { RowPacker } from "./fixture_rows.ts";
import { FixtureSource } from "./fixture_source.ts";
import { HostModel } from "./model.ts";
import { ModelSource, sourceOfModel } from "./model_source.ts";
import { PageSource } from "./page_source.ts";
import type { RowsMessage } from "./rows_message.ts";

const LAYOUT = fixtureLayout(2);

/** A model with a kernel that says what a test wants. */
class TestModel extends HostModel {
  readonly sent: { id: number; verb: string }[] = [];
  private listener: (message: unknown, buffers: unknown) => void = () => {};

  constructor() {
    super({ layout_of_cluster: LAYOUT, state: { pace: 1, now_s: 0.5, tasks: ["idle"] } });
  }

  override on(event: string, listener: (...values: unknown[]) => void): void {
    if (event === "msg:custom") this.listener = listener;
    else super.on(event, listener);
  }

  send(message: unknown): void {
    this.sent.push(message as { id: number; verb: string });
  }

  hear(message: object, ...buffers: DataView[]): void {
    this.listener(message, buffers);
  }
}

function packer(): RowPacker {
  return new RowPacker(0, SPAN_KINDS.map(({ name }) => name), MARK_KINDS.map(({ name }) => name));
}

const SPANS = [0, 1, 2].map((i) => ({ lane: "worker:0", category: "compute", name: "step", start: i, end: i + 0.5 }));

test("rows are decoded once for all views of a model, and asked for when the first one opens", () => {
  const model = new TestModel();
  const source = sourceOfModel(model);
  assert.equal(sourceOfModel(model), source);
  assert.deepEqual(model.sent.map(({ verb }) => verb), ["resend"]);
  model.hear(...packer().pack(SPANS));
  assert.equal(source.trace(0).spans.count, 3);
});

test("a reply goes to who asked; an answer to another page is nobody's", async () => {
  const model = new TestModel();
  const source = new ModelSource(model);
  const reply = source.send("step", { events: 1 });
  const { id } = model.sent[1];
  assert.ok(Number.isSafeInteger(id));
  model.hear({ kind: "reply", id: id + 1, error: "not for us" });
  model.hear({ kind: "reply", id, at_s: 0.25 });
  assert.equal((await reply)["at_s"], 0.25);
});

test("rows with a gap are asked for again, once", async () => {
  const model = new TestModel();
  const source = new ModelSource(model);
  model.hear({ kind: "reply", id: model.sent[0].id, at_s: 0 });
  await Promise.resolve();
  const pack = packer();
  pack.pack(SPANS);
  const [message, bytes] = pack.pack(SPANS);
  model.hear(message, bytes);
  model.hear({ ...message, from_row: 99 }, bytes);
  assert.deepEqual(model.sent.map(({ verb }) => verb), ["resend", "resend"]);
  assert.equal(source.trace(0).spans.count, 0);
});

test("a cleared branch is shown as such only with the next rows or the next state", () => {
  const model = new TestModel();
  const source = new ModelSource(model);
  model.hear(...packer().pack(SPANS));
  let said = 0;
  source.on("rows", () => (said += 1));
  model.hear({ kind: "clear", branch: 0 });
  assert.equal(said, 0);
  model.set("state", { pace: 1, now_s: 0 });
  assert.equal(said, 1);
  model.hear(...packer().pack(SPANS));
  assert.equal(source.trace(0).spans.count, 3);
});

test("values that views share are the model's", () => {
  const model = new TestModel();
  const source = new ModelSource(model);
  const heard: string[] = [];
  for (const event of ["cursor", "view", "selection"] as const) source.on(event, () => heard.push(event));
  source.setCursor(0.5);
  source.setView([0, 1]);
  model.set("selected", [4]);
  assert.deepEqual([source.cursor(), source.view(), source.selection(), heard], [0.5, [0, 1], [4], ["cursor", "view", "selection"]]);
});

test("movements of the pointer are saved together", async () => {
  const model = new TestModel();
  let saved = 0;
  model.save_changes = () => void (saved += 1);
  const source = new ModelSource(model);
  for (let i = 0; i < 50; i++) source.setCursor(i);
  assert.equal(saved, 0);
  await new Promise((done) => setTimeout(done, 150));
  assert.equal(saved, 1);
});

test("a model without a pace is the picture of a moment, and is asked nothing", async () => {
  const model = new TestModel();
  model.set("state", { now_s: 0.5, tasks: [] });
  const source = new ModelSource(model);
  assert.equal(source.canControl, false);
  assert.match((await source.send("play")).error ?? "", /In a Lab/);
  assert.deepEqual(model.sent, []);
});

test("a page has its last state and all rows, and refuses everything in words", async () => {
  const pack = packer();
  const [first, second] = [pack.pack(SPANS), pack.pack(SPANS)];
  const stored = ([message]: [RowsMessage, DataView], bytes: string): object => ({ ...message, bytes });
  const source = new PageSource(
    new HostModel({ layout_of_cluster: LAYOUT, state: { now_s: 2, state: "playing" }, rows: [stored(first, "rows_0"), stored(second, "rows_1")], rows_0: first[1], rows_1: second[1] }),
  );
  assert.equal(source.trace(0).spans.count, 6);
  assert.equal(source.state().state, "paused");
  assert.match((await source.send()).error ?? "", /Open its notebook/);
});

test("the reader of a page chooses which of its branches is shown", async () => {
  const states = { 0: { branch: 0, now_s: 2 }, 1: { branch: 1, now_s: 5, state: "playing" } };
  const source = new PageSource(new HostModel({ layout_of_cluster: LAYOUT, state: states[0], states }));
  const heard: string[] = [];
  for (const event of ["state", "rows"] as const) source.on(event, () => heard.push(event));
  assert.deepEqual([0, 1, 2].map((branch) => source.canShow(branch)), [true, true, false]);
  assert.equal((await source.send("select_branch", { branch: 1 })).error, undefined);
  assert.deepEqual([source.state().branch, source.state().now_s, source.state().state], [1, 5, "paused"]);
  assert.deepEqual(heard.sort(), ["rows", "state"]);
  assert.match((await source.send("select_branch", { branch: 2 })).error ?? "", /Open its notebook/);
});

test("a made-up run that is rewound and broken has the same rows up to there", async () => {
  const source = new FixtureSource({ workers: 2, end_s: 0.05 });
  source.advance(0.03);
  const rowsAt = (): number => source.trace(0).spans.count;
  const before = rowsAt();
  await source.send("seek", { t_s: 0.01 });
  assert.ok(rowsAt() < before);
  await source.send("inject", { fault: { kind: "crash", task: "worker:0", at: 0.02 } });
  await source.send("seek", { t_s: 0.03 });
  assert.ok(rowsAt() < before);
  assert.equal(source.state().tasks[LAYOUT.tasks.findIndex(({ name }) => name === "worker:0")], "down");
});

test("two pages of one kernel ask under numbers of their own", () => {
  const ids = [new TestModel(), new TestModel()].map((model) => {
    const source = new ModelSource(model);
    for (let i = 0; i < 100; i++) void source.send("step", { events: 1 });
    return new Set(model.sent.map(({ id }) => id));
  });
  assert.deepEqual([...ids[0]].filter((id) => ids[1].has(id)), []);
  assert.deepEqual(ids.map(({ size }) => size), [101, 101]);
});

test("the cursor goes back to the moment that was pinned", () => {
  const source = new FixtureSource({ workers: 2 });
  source.pin(0.5);
  source.pointAt(0.7);
  assert.equal(source.cursor(), 0.7);
  source.pointAt(null);
  assert.equal(source.cursor(), 0.5);
  source.pin(null);
  assert.equal(source.cursor(), null);
});

test("rows that were stored with a model are shown until the kernel sends others", () => {
  const model = new TestModel();
  const [message, data] = packer().pack(SPANS);
  model.set("stored", { rows: [{ ...message, data }], states: {} });
  const source = new ModelSource(model);
  assert.equal(source.trace(0).spans.count, 3);
  model.hear({ kind: "clear", branch: 0 });
  model.hear(...packer().pack(SPANS.slice(0, 2)));
  assert.equal(source.trace(0).spans.count, 2);
});

test("who asked hears why the reply comes late, and nobody else", async () => {
  const model = new TestModel();
  const source = new ModelSource(model);
  const heard: string[] = [];
  const reply = source.send("recover", { command: 0 }, (why) => void heard.push(why));
  void source.send("step", { events: 1 }, () => assert.fail("this one is not late"));
  const { id } = model.sent[1];
  model.hear({ kind: "busy", id, text: "about 5 s" });
  model.hear({ kind: "reply", id, at_s: 1 });
  await reply;
  model.hear({ kind: "busy", id, text: "too late" });
  assert.deepEqual(heard, ["about 5 s"]);
});
