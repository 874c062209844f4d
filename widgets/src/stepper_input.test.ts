import assert from "node:assert/strict";
import { test } from "node:test";
import { commandOf, type Commands } from "./stepper_input.ts";

function recorded(): { commands: Commands; calls: string[] } {
  const calls: string[] = [];
  const handler = { get: (_: object, name: string) => (...given: unknown[]) => calls.push(`${name}(${given})`) };
  return { commands: new Proxy({}, handler) as Commands, calls };
}

const KEYS: readonly [string, string][] = [
  ["ArrowLeft", "goBy(-1)"],
  ["ArrowRight", "goBy(1)"],
  ["PageUp", "goBy(-10)"],
  ["PageDown", "goBy(10)"],
  ["Home", "goTo(0)"],
  ["End", "goToEnd()"],
  [" ", "playOrPause()"],
  ["ArrowUp", "chooseRank(-1)"],
  ["ArrowDown", "chooseRank(1)"],
  ["Escape", "clear()"],
];

for (const [key, call] of KEYS) {
  test(`key "${key}" means ${call}`, () => {
    const { commands, calls } = recorded();
    commandOf(key, commands)?.();
    assert.deepEqual(calls, [call]);
  });
}

test("other keys are left to the page", () => {
  const { commands } = recorded();
  assert.deepEqual(["Tab", "Enter", "toString"].map((key) => commandOf(key, commands)), [null, null, null]);
});
