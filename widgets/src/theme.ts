// Colours for the canvas, taken from the style sheet, and a signal when they change.

export interface Colors {
  readonly background: string;
  readonly lane: string;
  readonly chosen: string;
  readonly text: string;
  readonly softText: string;
  readonly line: string;
  readonly grid: string;
  readonly focus: string;
  readonly font: string;
  readonly forced: boolean; // the system forces its colours
}

/** The colours that hold for `root` now, resolved by the browser. */
export function readColors(root: HTMLElement): Colors {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.setProperty("forced-color-adjust", "none"); // else every colour is that of text where colours are forced
  root.append(probe);
  const resolve = (name: string): string => {
    probe.style.color = `var(--sdw-${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = {
    background: resolve("background"),
    lane: resolve("lane"),
    chosen: resolve("chosen"),
    text: resolve("text"),
    softText: resolve("soft-text"),
    line: resolve("line"),
    grid: resolve("grid"),
    focus: resolve("focus"),
    font: getComputedStyle(root).fontFamily,
    forced: matchMedia("(forced-colors: active)").matches,
  };
  probe.remove();
  return colors;
}

/** Calls `changed` when Jupyter's theme, the system's choice of light or dark, or forced colours change. */
export function watchTheme(changed: () => void): () => void {
  const later = (): void => void setTimeout(changed, 0); // Jupyter sets the attribute before its style sheet
  const observer = new MutationObserver(later);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  const queries = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
  for (const query of queries) query.addEventListener("change", later);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", later);
  };
}

/** Black or white, whichever is easier to read on a colour of the form #rrggbb. */
export function inkOn(hex: string): string {
  const value = Number.parseInt(hex.slice(1), 16);
  const channel = (shift: number): number => (((value >> shift) & 255) / 255) ** 2.2;
  const luminance = 0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0);
  return luminance > 0.2 ? "#101418" : "#ffffff";
}
