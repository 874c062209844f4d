// The console of faults alone, on the model of a Lab.

import { sourceOf } from "./lab_source.ts";
import type { Model, RenderContext } from "./model.ts";
import { mountBranchLine } from "./branch_line.ts";
import { mountFaultConsole } from "./fault_console_view.ts";

export default {
  initialize: ({ model }: { readonly model: Model }): void => void sourceOf(model),
  render: ({ model, el }: RenderContext): (() => void) => {
    const source = sourceOf(model);
    const ends = [mountBranchLine(el, source), mountFaultConsole(el, source)];
    return () => ends.forEach((end) => end());
  },
};

export { mountFaultConsole } from "./fault_console_view.ts"; // for the Lab, of which this bundle is a part
