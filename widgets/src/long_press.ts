// A finger that rests on a place: a menu, as the right button of a mouse.

const HOLD_MS = 500;
const MOST_MOVE = 10; // pixels, that a finger which rests may move

/** Calls `act` for a finger that rests; the click that would follow when it is lifted does not happen. */
export function onLongPress(place: HTMLElement, act: (event: PointerEvent) => void): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let down: PointerEvent | null = null;
  let isHeld = false;
  const cancel = (): void => clearTimeout(timer);
  place.addEventListener("pointerdown", (event) => {
    cancel();
    isHeld = false;
    if (event.pointerType !== "touch" || !event.isPrimary) return;
    down = event;
    timer = setTimeout(() => {
      isHeld = true;
      act(event);
    }, HOLD_MS);
  });
  place.addEventListener("pointermove", (event) => {
    if (down && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > MOST_MOVE) cancel();
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"] as const) place.addEventListener(name, cancel);
  place.addEventListener("click", (event) => {
    if (!isHeld) return;
    isHeld = false;
    event.stopImmediatePropagation();
    event.preventDefault();
  }, { capture: true });
}
