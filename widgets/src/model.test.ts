import assert from "node:assert/strict";
import { test } from "node:test";
import { HostModel } from "./model.ts";

test("a change is told once, to those who listen to that key", () => {
  const model = new HostModel({ view_s: [], header: 1 });
  const heard: string[] = [];
  model.on("change:view_s", () => heard.push("view_s"));
  model.on("change:header", () => heard.push("header"));
  model.on("change", () => heard.push("any"));
  model.set("view_s", [1, 2]);
  assert.deepEqual(model.get("view_s"), [1, 2]);
  assert.deepEqual(heard, ["view_s", "any"]);
});

test("setting the same value is no change", () => {
  const model = new HostModel({ header: 1 });
  model.on("change:header", () => assert.fail("nothing changed"));
  model.set("header", 1);
});

test("who stops listening hears nothing more", () => {
  const model = new HostModel({});
  const listener = (): void => assert.fail("was removed");
  model.on("change:a", listener);
  model.off("change:a", listener);
  model.set("a", 1);
  model.save_changes();
});
