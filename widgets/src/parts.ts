// The pieces of the Lab that are bundles of their own: the views that are widgets as well, and uPlot. So each script stays small, and
// a page holds each piece once.
//
// A notebook gives their texts with the model (lab.ts); on an exported page their scripts have already run (page_parts.ts).

import type uPlot from "uplot";
import { element } from "./dom.ts";
import type { mountFaultConsole } from "./fault_console_view.ts";
import type { mountLiveTimeline } from "./live_timeline.ts";
import type { mountTopology } from "./topology_view.ts";

export interface Parts {
  readonly timeline: { readonly mountLiveTimeline: typeof mountLiveTimeline };
  readonly topology: { readonly mountTopology: typeof mountTopology };
  readonly fault_console: { readonly mountFaultConsole: typeof mountFaultConsole };
  readonly uplot: { readonly default: typeof uPlot };
}

export type PartName = keyof Parts;

/** Gives a part, at once where it is there already. */
export type LoadPart = <Name extends PartName>(name: Name) => Parts[Name] | Promise<Parts[Name]>;

/** Mounts what needs a part as soon as that is there, and says in its place why it does not come; returns what ends it. */
export function mountWith<Name extends PartName>(root: HTMLElement, load: LoadPart, name: Name, mount: (part: Parts[Name]) => () => void): () => void {
  let isOver = false;
  let end = (): void => {};
  const begin = (part: Parts[Name]): void => {
    if (!isOver) end = mount(part);
  };
  const fail = (error: unknown): void => {
    root.append(element("p", { class: "sdw sdw-error", role: "alert" }, `This part of the Lab could not be loaded: ${error instanceof Error ? error.message : error}`));
  };
  const found = load(name);
  if (found instanceof Promise) void found.then(begin).catch(fail);
  else begin(found);
  return () => {
    isOver = true;
    end();
  };
}
