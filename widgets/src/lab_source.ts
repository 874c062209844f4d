// The source that stands for a widget's model: the kernel's in a notebook, the page's on an exported page.

import { HostModel, type Model } from "./model.ts";
import { sourceOfModel } from "./model_source.ts";
import { PageSource } from "./page_source.ts";
import type { Source } from "./source.ts";

export function sourceOf(model: Model): Source {
  return model instanceof HostModel ? new PageSource(model) : sourceOfModel(model);
}
