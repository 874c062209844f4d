// sw.Lab: the laboratory on the model of a widget; on an exported page, on what the page holds.

import { mountLab } from "./lab_view.ts";
import { HostModel, type Model, type RenderContext } from "./model.ts";
import { sourceOfModel } from "./model_source.ts";
import { PageSource } from "./page_source.ts";
import type { Source } from "./source.ts";

function sourceOf(model: Model): Source {
  return model instanceof HostModel ? new PageSource(model) : sourceOfModel(model);
}

export default {
  initialize: ({ model }: { readonly model: Model }): void => void sourceOf(model), // rows are decoded from the first view on
  render: ({ model, el }: RenderContext): (() => void) => mountLab(el, sourceOf(model)),
};
