// sw.Lab: the whole laboratory.

import { sourceOf } from "./lab_source.ts";
import { mountLab } from "./lab_view.ts";
import type { Model, RenderContext } from "./model.ts";
import { partsOfModel } from "./model_parts.ts";

export default {
  initialize: ({ model }: { readonly model: Model }): void => void sourceOf(model), // rows are decoded once for all views
  render: ({ model, el }: RenderContext): (() => void) => mountLab(el, sourceOf(model), partsOfModel(model)),
};
