import assert from "node:assert/strict";
import { test } from "node:test";
import { shorten } from "./labels.ts";

test("a name is whole, cut, or left out, by the room that it has", () => {
  assert.deepEqual([17, 8, 3].map((room) => shorten("train_step", room)), ["train_step", "train_s…", ""]);
  assert.equal(shorten("read", 4), "read");
});

test("a name that ends with a number is cut from the front and keeps the number", () => {
  assert.deepEqual([11, 8, 5, 4, 3].map((room) => shorten("closure #12", room)), ["closure #12", "…#12", "…#12", "…#12", ""]);
  assert.equal(shorten("closure 7", 3), "…7");
});

test("a number is never cut: it would be another one", () => {
  assert.equal(shorten("closure 123456", 6), "");
  assert.equal(shorten("closure 123456", 7), "…123456");
});
