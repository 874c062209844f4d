// Pointer, wheel and keys of a timeline, translated into commands. The keys are listed under the plot.
//
// A plain wheel scrolls the notebook until the plot has been clicked; after that, and with Ctrl always, it zooms.

import type { Frame } from "./timeline_frame.ts";

export interface Commands {
  readonly width: number; // of the plot, pixels
  zoomAt(factor: number, x?: number): void;
  panBy(pixels: number): void;
  fitAll(): void;
  follow(): void;
  goTo(fraction: number): void;
  pointAt(x: number, y: number): void;
  pickAt(x: number, y: number): void;
  pointAway(): void;
  chooseLane(step: number): void;
  walkSpans(step: 1 | -1): void;
  walkEvents(step: 1 | -1): void;
  clear(): void;
}

const ZOOM_STEP = 1.5;
const ZOOM_PER_PIXEL = 0.0016; // of the wheel
const PIXELS_PER_LINE = 18;

/** What a key does, or null. */
export function commandOf(key: string, commands: Commands): (() => void) | null {
  const table: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => commands.panBy(-commands.width / 8),
    ArrowRight: () => commands.panBy(commands.width / 8),
    PageUp: () => commands.panBy(-commands.width * 0.9),
    PageDown: () => commands.panBy(commands.width * 0.9),
    ArrowUp: () => commands.chooseLane(-1),
    ArrowDown: () => commands.chooseLane(1),
    "+": () => commands.zoomAt(1 / ZOOM_STEP),
    "=": () => commands.zoomAt(1 / ZOOM_STEP),
    "-": () => commands.zoomAt(ZOOM_STEP),
    "0": () => commands.fitAll(),
    Home: () => commands.fitAll(),
    ",": () => commands.walkSpans(-1),
    ".": () => commands.walkSpans(1),
    p: () => commands.walkEvents(-1),
    n: () => commands.walkEvents(1),
    Escape: () => commands.clear(),
  };
  return Object.hasOwn(table, key) ? table[key] : null;
}

/** Connects a frame with its commands; returns what disconnects them. */
export function listen(frame: Frame, commands: Commands): () => void {
  const ending = new AbortController();
  const options = { signal: ending.signal };
  const { buttons, plot, overview } = frame;
  buttons.in.addEventListener("click", () => commands.zoomAt(1 / ZOOM_STEP), options);
  buttons.out.addEventListener("click", () => commands.zoomAt(ZOOM_STEP), options);
  buttons.follow.addEventListener("click", () => commands.follow(), options);
  buttons.fit.addEventListener("click", () => commands.fitAll(), options);
  buttons.previous.addEventListener("click", () => commands.walkEvents(-1), options);
  buttons.next.addEventListener("click", () => commands.walkEvents(1), options);
  overview.addEventListener("click", (event) => commands.goTo(event.offsetX / overview.clientWidth), options);
  plot.addEventListener("keydown", (event) => onKey(event, commands), options);
  plot.addEventListener("wheel", (event) => onWheel(event, plot, commands), { ...options, passive: false });
  dragging(plot, commands, options);
  return () => ending.abort();
}

function onKey(event: KeyboardEvent, commands: Commands): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const command = commandOf(event.key, commands);
  if (!command) return;
  event.preventDefault();
  event.stopPropagation();
  command();
}

function onWheel(event: WheelEvent, plot: HTMLElement, commands: Commands): void {
  const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? PIXELS_PER_LINE : 1;
  const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
  if (sideways !== 0 && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
    event.preventDefault();
    commands.panBy(sideways * pixels);
  } else if (event.ctrlKey || event.metaKey || document.activeElement === plot) {
    event.preventDefault();
    commands.zoomAt(Math.exp(event.deltaY * pixels * ZOOM_PER_PIXEL), event.offsetX);
  }
}

function dragging(plot: HTMLElement, commands: Commands, options: { signal: AbortSignal }): void {
  const fingers = new Map<number, number>(); // where each pointer that is down is, in pixels of the window
  let moved = false;
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (fingers.size === 0) moved = false;
    fingers.set(event.pointerId, event.clientX);
    plot.setPointerCapture(event.pointerId);
  }, options);
  plot.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (last === undefined) return commands.pointAt(event.offsetX, event.offsetY);
    if (event.clientX === last) return;
    moved = true;
    const before = spread(fingers);
    fingers.set(event.pointerId, event.clientX);
    if (fingers.size === 1) commands.panBy(last - event.clientX);
    else pinch(commands, before, spread(fingers), plot.getBoundingClientRect().left);
  }, options);
  for (const name of ["pointerup", "pointercancel"] as const) {
    plot.addEventListener(name, (event) => void fingers.delete(event.pointerId), options);
  }
  plot.addEventListener("click", (event) => {
    if (!moved) commands.pickAt(event.offsetX, event.offsetY);
  }, options);
  plot.addEventListener("pointerleave", () => commands.pointAway(), options);
}

interface Spread {
  readonly middle: number; // pixels
  readonly width: number;
}

const LEAST_SPREAD = 10; // pixels between two fingers, so that they never zoom without end

function spread(fingers: ReadonlyMap<number, number>): Spread {
  const [least, greatest] = [Math.min(...fingers.values()), Math.max(...fingers.values())];
  return { middle: (least + greatest) / 2, width: Math.max(greatest - least, LEAST_SPREAD) };
}

/** What lay between two fingers stays between them. */
export function pinch(commands: Pick<Commands, "zoomAt" | "panBy">, before: Spread, after: Spread, left: number): void {
  commands.zoomAt(before.width / after.width, before.middle - left);
  commands.panBy(before.middle - after.middle);
}
