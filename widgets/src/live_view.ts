// What of a run is in view while it goes on: a window that ends a little after the present, until the reader moves away.

import { fit, inside, type View } from "./time_scale.ts";

const AHEAD = 0.06; // of the window, that is free after the present

/** How far a view may go: the run up to the last record or the present, and at least one window. */
export function liveBounds(last: number, now: number, span: number): View {
  const end = Math.max(last, now);
  const whole = fit(0, end > 0 ? end : span);
  return { start: whole.start, end: Math.max(whole.end, following(now, span).end) };
}

/** The window that follows the present. */
export function following(now: number, span: number): View {
  const end = Math.max(now + span * AHEAD, span);
  return { start: end - span, end };
}

/** A view after the bounds have grown: the whole run stays the whole run, everything else stays where it is. */
export function afterGrowth(view: View, isWhole: boolean, bounds: View): View {
  return isWhole ? bounds : inside(view, bounds);
}
