// The topology of a running cluster alone, on the model of a Lab.

import { sourceOf } from "./lab_source.ts";
import type { Model, RenderContext } from "./model.ts";
import { mountTopology } from "./topology_view.ts";

export default {
  initialize: ({ model }: { readonly model: Model }): void => void sourceOf(model),
  render: ({ model, el }: RenderContext): (() => void) => mountTopology(el, sourceOf(model)),
};

export { mountTopology } from "./topology_view.ts"; // for the Lab, of which this bundle is a part
