// The signs on buttons, as path data in a box of 16.

import { shape } from "./dom.ts";

const ICONS = {
  play: "M4 2.5v11l9.5-5.5z",
  pause: "M3.5 2.5h3v11h-3zM9.5 2.5h3v11h-3z",
  step: "M3 2.5v11l7.5-5.5zM11 2.5h2.2v11H11z",
  rewind: "M2.8 2.5H5v11H2.8zM13.2 2.5v11L5.7 8z",
  fork: "M3.4 1.5a1.9 1.9 0 0 1 .8 3.6v5.8a1.9 1.9 0 1 1-1.6 0V5.1a1.9 1.9 0 0 1 .8-3.6zM12.4 1.5a1.9 1.9 0 0 1 .7 3.6c-.2 2.6-1.9 3.9-4.9 4.1-1.2.1-2 .4-2.5.9V7.9c.7-.3 1.5-.4 2.4-.5 2.2-.1 3.3-.7 3.5-2.3a1.9 1.9 0 0 1 .8-3.6z",
  copy: "M5 1.5h8.5V11H12V3H5zM2.5 4.5H11v10H2.5zM4 6v7h5.5V6z",
  bolt: "M9.2 1 3 9h3.6L5.8 15 13 6.5H8.9z",
} as const;

export type IconName = keyof typeof ICONS;

export function icon(name: IconName): SVGElement {
  return shape("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", class: "sdw-icon" }, shape("path", { d: ICONS[name] }));
}

/** Changes the sign of a button. */
export function setIcon(target: SVGElement, name: IconName): void {
  target.firstElementChild?.setAttribute("d", ICONS[name]);
}
