import { sourceOf } from "./lab_source.ts";
import { mountLab } from "./lab_view.ts";
import { showAll } from "./page.ts";
import { partOfPage } from "./page_parts.ts";

showAll("lab", ({ model, el }) => mountLab(el, sourceOf(model), partOfPage));
