// The parts of the Lab in a notebook: their texts came with the model, and become modules in the way in which anywidget makes one of
// the widget's own script. So they load wherever that has loaded, also from a notebook that was saved.

import type { Model } from "./model.ts";
import type { LoadPart, PartName, Parts } from "./parts.ts";

const KEY = Symbol.for("simdist.parts");
type Modules = Map<string, Promise<unknown>>;

/** One module for equal texts, however many Labs a page has, each of which runs a script of its own. */
function modules(): Modules {
  const page = globalThis as { [KEY]?: Modules };
  return (page[KEY] ??= new Map());
}

export function partsOfModel(model: Model): LoadPart {
  return <Name extends PartName>(name: Name) => moduleOf((model.get("scripts") as Readonly<Record<string, string>> | undefined)?.[name], name) as Promise<Parts[Name]>;
}

function moduleOf(text: string | undefined, name: string): Promise<unknown> {
  if (!text) return Promise.reject(new Error(`the model has no script "${name}": reinstall simdist_widgets`));
  const known = modules().get(text);
  if (known) return known;
  const loading = importText(text);
  modules().set(text, loading);
  return loading;
}

async function importText(text: string): Promise<unknown> {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(address);
  } finally {
    URL.revokeObjectURL(address);
  }
}
