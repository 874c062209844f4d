import assert from "node:assert/strict";
import { test } from "node:test";
import { pinch, commandOf, type Commands } from "./timeline_input.ts";

function recorded(): { commands: Commands; calls: string[] } {
  const calls: string[] = [];
  const record = (name: string) => (...given: unknown[]) => calls.push(`${name}(${given})`);
  const handler = { get: (_: object, name: string) => (name === "width" ? 800 : record(name)) };
  return { commands: new Proxy({}, handler) as Commands, calls };
}

const KEYS: readonly [string, string][] = [
  ["ArrowLeft", "panBy(-100)"],
  ["ArrowRight", "panBy(100)"],
  ["ArrowUp", "chooseLane(-1)"],
  ["ArrowDown", "chooseLane(1)"],
  ["-", "zoomAt(1.5)"],
  ["0", "fitAll()"],
  ["Home", "fitAll()"],
  [",", "walkSpans(-1)"],
  [".", "walkSpans(1)"],
  ["p", "walkEvents(-1)"],
  ["n", "walkEvents(1)"],
  ["Escape", "clear()"],
];

for (const [key, call] of KEYS) {
  test(`key ${key} means ${call}`, () => {
    const { commands, calls } = recorded();
    commandOf(key, commands)?.();
    assert.deepEqual(calls, [call]);
  });
}

test("other keys are left to the page", () => {
  const { commands } = recorded();
  assert.deepEqual(["Tab", "a", "toString"].map((key) => commandOf(key, commands)), [null, null, null]);
});

test("what lay between two fingers stays between them", () => {
  const done: (readonly number[])[] = [];
  const commands = { zoomAt: (factor: number, x?: number) => void done.push([factor, x ?? NaN]), panBy: (pixels: number) => void done.push([pixels]) };
  pinch(commands, { middle: 150, width: 100 }, { middle: 170, width: 200 }, 50);
  assert.deepEqual(done, [[0.5, 100], [-20]]);
});
