// Buttons, slider, keys and pointer of a stepper, translated into commands. The keys are listed under the matrix.

import type { Frame } from "./stepper_frame.ts";

export interface Commands {
  goTo(moment: number): void;
  goBy(steps: number): void;
  goToEnd(): void;
  playOrPause(): void;
  chooseRank(step: 1 | -1): void;
  pointAt(x: number, y: number): void;
  pointAway(): void;
  pickAt(x: number, y: number): void;
  clear(): void;
}

/** What a key does, or null. */
export function commandOf(key: string, commands: Commands): (() => void) | null {
  const table: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => commands.goBy(-1),
    ArrowRight: () => commands.goBy(1),
    PageUp: () => commands.goBy(-10),
    PageDown: () => commands.goBy(10),
    Home: () => commands.goTo(0),
    End: () => commands.goToEnd(),
    " ": () => commands.playOrPause(),
    ArrowUp: () => commands.chooseRank(-1),
    ArrowDown: () => commands.chooseRank(1),
    Escape: () => commands.clear(),
  };
  return Object.hasOwn(table, key) ? table[key] : null;
}

/** Connects a frame with its commands; returns what disconnects them. */
export function listen(frame: Frame, commands: Commands): () => void {
  const ending = new AbortController();
  const options = { signal: ending.signal };
  const { buttons, slider, root, matrix } = frame;
  buttons.first.addEventListener("click", () => commands.goTo(0), options);
  buttons.back.addEventListener("click", () => commands.goBy(-1), options);
  buttons.play.addEventListener("click", () => commands.playOrPause(), options);
  buttons.next.addEventListener("click", () => commands.goBy(1), options);
  buttons.last.addEventListener("click", () => commands.goToEnd(), options);
  slider.addEventListener("input", () => commands.goTo(Number(slider.value)), options);
  root.addEventListener("keydown", (event) => onKey(event, commands), options);
  matrix.addEventListener("pointermove", (event) => commands.pointAt(...placeIn(matrix, event)), options);
  matrix.addEventListener("pointerleave", () => commands.pointAway(), options);
  matrix.addEventListener("click", (event) => commands.pickAt(...placeIn(matrix, event)), options);
  return () => ending.abort();
}

function onKey(event: KeyboardEvent, commands: Commands): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target instanceof HTMLButtonElement) return; // a button is pressed with it
  const command = commandOf(event.key, commands);
  if (!command) return;
  event.preventDefault();
  event.stopPropagation();
  command();
}

function placeIn(matrix: HTMLElement, event: MouseEvent): [number, number] {
  const box = matrix.getBoundingClientRect();
  return [event.clientX - box.left + matrix.scrollLeft, event.clientY - box.top];
}
