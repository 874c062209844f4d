// Words for the screen: names of the engine as people read them, and texts that are too long for their place.

const MOST_TITLE = 300; // characters of a text in a title; more than that nobody reads there

/** "lose_host" is "Lose host". */
export function sentence(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A text of at most `most` characters, cut at its end. */
export function cut(text: string, most = MOST_TITLE): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** Puts a text that may be long into an element: cut there by the style sheet, and readable to some length as a title. */
export function write(target: HTMLElement, text: string): void {
  const shown = cut(text, 2000);
  if (target.textContent !== shown) target.textContent = shown;
  const title = cut(text);
  if (target.title !== title) target.title = title;
}
