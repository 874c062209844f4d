// The parts of the Lab on an exported page: the script of each puts its part here before that of the Lab runs.

import type { LoadPart, PartName, Parts } from "./parts.ts";

type Known = { -readonly [Name in PartName]?: Parts[Name] };

const page = globalThis as { simdistParts?: Known };

/** Puts a part where the Lab of this page finds it. */
export function offer<Name extends PartName>(name: Name, part: Parts[Name]): void {
  const known: Known = (page.simdistParts ??= {});
  known[name] = part as Known[Name];
}

export const partOfPage: LoadPart = (name) => {
  const found = page.simdistParts?.[name];
  if (!found) throw new Error(`the page has no script "${name}"`);
  return found as never;
};
