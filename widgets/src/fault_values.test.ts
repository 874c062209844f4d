import assert from "node:assert/strict";
import { test } from "node:test";
import { readFaults, shortly } from "./fault_console_view.ts";
import { asRecovery, furtherRows, signed } from "./recovery_table.ts";
import { bounds, check, faultOf, firstEntries, inOrder, isComplete, taskParameter } from "./fault_values.ts";
import { FAULTS, parameter, TRIGGERS } from "./fixture_cluster.ts";

const kind = (name: string): (typeof FAULTS)[number] => FAULTS.find((fault) => fault.kind === name) ?? FAULTS[0];
const problem = (checked: object): string => ("problem" in checked ? String(checked.problem) : "");

test("bounds are said in words", () => {
  assert.equal(bounds(parameter("p", "number", "", { above: 0, at_most: 1 })), "more than 0, and at most 1");
  assert.equal(bounds(parameter("p", "number", "", { at_least: 0, unit: "s" })), "0 or more s");
  assert.equal(bounds(parameter("p", "number", "", { at_least: 0, below: 1e15, unit: "s" })), "0 or more, and less than 1e+15 s");
  assert.equal(bounds(parameter("n", "number", "", { at_least: 1, whole: true })), "a whole number, 1 or more");
});

test("numbers are checked against their bounds, and written as people write them", () => {
  const factor = parameter("factor", "number", "", { above: 0, below: 10 });
  assert.deepEqual([" 2.5 ", "2,5", "1e-3"].map((text) => check(factor, text)), [{ value: 2.5 }, { value: 2.5 }, { value: 0.001 }]);
  for (const text of ["0", "10", "x", "Infinity", "NaN"]) assert.match(problem(check(factor, text)), /^factor must be more than 0/);
  assert.match(problem(check(parameter("n", "number", "", { whole: true }), "1.5")), /whole number/);
});

test("what widgets write with a comma between thousands is not read as a fraction", () => {
  const steps = parameter("after_steps", "number", "", { at_least: 1, whole: true });
  assert.match(problem(check(steps, "2,000")), /^after_steps is 2,000, which can be read in two ways: write 2000 or 2\.000 without a comma\.$/);
  assert.match(problem(check(steps, "1,234,567")), /write 1234567 without/);
  assert.deepEqual(["2000", "2,0"].map((text) => check(steps, text)), [{ value: 2000 }, { value: 2 }]);
  assert.deepEqual(check(parameter("at", "number", ""), "0,125"), { value: 0.125 });
});

test("what is optional may be left out, what is not is missing", () => {
  assert.deepEqual(check(parameter("until", "number", "", { optional: true }), ""), { value: null });
  assert.match(problem(check(parameter("task", "task", "whom it hits"), "")), /task is missing: whom it hits/);
  assert.match(problem(check(parameter("a", "tasks", "one side"), [])), /missing/);
});

test("a fault holds its kind and what was entered, and nothing that was left out", () => {
  const entries = { task: "worker:1", restart_after: "0.01", at: "", after_steps: "" };
  assert.deepEqual(faultOf(kind("crash"), TRIGGERS, entries), { fault: { kind: "crash", task: "worker:1", restart_after: 0.01 } });
  const wrong = faultOf(kind("slow"), TRIGGERS, { task: "worker:1", factor: "-1" });
  assert.equal("name" in wrong && wrong.name, "factor");
});

test("several tasks are a list, from buttons or from text", () => {
  const a = parameter("a", "tasks", "one side");
  assert.deepEqual(check(a, ["worker:0"]), { value: ["worker:0"] });
  assert.deepEqual(check(a, "worker:0, worker:1"), { value: ["worker:0", "worker:1"] });
});

test("forms begin with the defaults, and with the task that was clicked", () => {
  assert.deepEqual(firstEntries(kind("slow").parameters, { task: "worker:1" }), { task: "worker:1", factor: "3", until: "" });
  assert.deepEqual(firstEntries(kind("partition").parameters, { a: ["worker:1"] }), { a: ["worker:1"], b: [], one_way: false, until: "" });
});

test("a kind is ready for a task when nothing is missing", () => {
  const ready = FAULTS.filter((fault) => {
    const first = taskParameter(fault);
    return first && isComplete(fault, firstEntries(fault.parameters, { [first.name]: first.type === "tasks" ? ["worker:1"] : "worker:1" }));
  });
  assert.deepEqual(ready.map((fault) => fault.kind), ["crash", "lose_host", "slow", "pause"]);
});

test("a list of faults is read from text, one alone too, and anything else is said to be wrong", () => {
  assert.deepEqual(readFaults('[{"kind": "crash", "task": "worker:1"}]'), { faults: [{ kind: "crash", task: "worker:1" }] });
  assert.deepEqual(readFaults('{"kind": "crash"}'), { faults: [{ kind: "crash" }] });
  assert.match(problem(readFaults("{")), /no JSON/);
  assert.match(problem(readFaults('[{"kind": "crash"}, 7]')), /Number 2 is no fault/);
});

test("a fault is named by its kind and whom it hits, or else as the engine does", () => {
  const planned = { description: "crash('worker:7', at=0.0038)", status: "fired", fired_s: 1, healed_s: null } as const;
  assert.equal(shortly({ ...planned, fault: { kind: "lose_host", task: "worker:7" } }), "Lose host of worker:7");
  assert.equal(shortly({ ...planned, fault: { kind: "partition", a: ["worker:0"] } }), planned.description);
  const cut = { kind: "partition", a: "worker:0", b: ["ps:0", "ps:1"] };
  assert.equal(shortly({ ...planned, fault: cut }), "Partition between worker:0 and ps:0, ps:1");
  assert.equal(shortly({ ...planned, fault: { kind: "slow_link", source: "ps:0", target: "worker:1" } }), "Slow link from ps:0 to worker:1");
});

test("a cost has a sign, and a reply without phases is no recovery", () => {
  assert.deepEqual([0.00219, -1e-3, 1e-12].map(signed), ["+2.19 ms", "−1 ms", "none"]);
  assert.deepEqual([undefined, null, {}, { phases: [] }].map(asRecovery), [null, null, null, null]);
  assert.ok(asRecovery({ phases: [], cost_s: 0 }));
});

test("the story goes on below the figures of its phases", () => {
  const phases = [{ name: "detection", seconds: 1, cost_s: 0 }];
  const rows = [["fault", "a crash"], ["detection", "0 to 1 s"], ["cost", "+1 s"], ["repeated", "4 steps"]] as const;
  assert.deepEqual(furtherRows({ phases, cost_s: 1, rows }), [["repeated", "4 steps"]]);
  assert.deepEqual(furtherRows({ phases, cost_s: 1 }), []);
});

test("the usual kinds of faults come first, unknown ones after them", () => {
  const kinds = ["corrupt", "crash", "lose_host", "novel", "pause"].map((kind) => ({ kind, parameters: [] }));
  assert.deepEqual(inOrder(kinds).map(({ kind }) => kind), ["crash", "pause", "lose_host", "corrupt", "novel"]);
});
