// Which run a view shows that has no bar of branches, and how to get back: one line. With a single run there is nothing to say.

import { Asking } from "./asking.ts";
import { element } from "./dom.ts";
import { formatEvent } from "./format.ts";
import type { Branch, LabState } from "./lab_types.ts";
import type { Source } from "./source.ts";
import { cut } from "./words.ts";

/** Shows the line in an element; returns what ends it. */
export function mountBranchLine(root: HTMLElement, source: Source): () => void {
  const asking = new Asking(source);
  const line = element("p", { class: "sdw-quiet sdw-branch-line", hidden: true });
  const place = element("div", { class: "sdw" }, line, asking.note);
  let shown = "";
  const back = ({ number, name }: Branch): HTMLElement => {
    const button = element("button", { type: "button", class: "sdw-plain" }, `show ${cut(name, 40)}`);
    button.addEventListener("click", () => void asking.ask("select_branch", { branch: number }, button));
    button.disabled = !source.canShow(number);
    return button;
  };
  const update = (): void => {
    const { branches, branch } = source.state();
    line.hidden = branches.length < 2;
    const key = JSON.stringify([branches.map(({ number, name }) => [number, name]), branch]);
    if (key === shown) return;
    shown = key;
    const others = branches.filter(({ number }) => number !== branch);
    line.replaceChildren(...whichRun(source.state()), ...others.map(back));
  };
  root.append(place);
  const end = source.on("state", update);
  update();
  return () => {
    end();
    place.remove();
  };
}

/** "fork_1, a fork of session at 9.9 ms" */
function whichRun({ branches, branch }: LabState): (HTMLElement | string)[] {
  const one = branches.find(({ number }) => number === branch);
  if (!one) return [];
  const from = branches.find(({ number }) => number === one.forked_from);
  const origin = from && one.forked_at_s !== null ? `, a fork of ${cut(from.name, 40)} at ${formatEvent(one.forked_at_s)}` : "";
  return [element("strong", {}, cut(one.name, 40)), `${origin} `];
}
