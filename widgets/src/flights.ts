// Where messages in flight are at a moment, and the moment that is shown between two states. No drawing.

import type { Flight, LinkSpec } from "./lab_types.ts";

const LONGEST_S = 0.25; // real seconds that the way from one state to the next may take on the screen
const MOST_UNKNOWN = 0.92; // of the way, where the end of a flight is not known yet

/** How much of its way a message has behind it; one without a known end is estimated by its bytes and never arrives. */
export function progress(flight: Flight, now: number, bytesPerSecond: number): number {
  const { started_s, bytes } = flight;
  const ends_s = flight.ends_s ?? null;
  const length = ends_s !== null ? ends_s - started_s : bytes / Math.max(bytesPerSecond, 1);
  const part = length > 0 ? (now - started_s) / length : 1;
  return Math.min(Math.max(part, 0), ends_s !== null ? 1 : MOST_UNKNOWN);
}

/** The radius of a message's dot: ten times as many bytes are a pixel more. */
export function dotRadius(bytes: number): number {
  return Math.min(7, Math.max(2.4, 2.4 + (Math.log10(Math.max(bytes, 1)) - 3)));
}

/** The slowest link of a way. */
export function slowest(way: readonly string[], links: readonly LinkSpec[]): number {
  const on = links.filter(({ source, target }) => way.some((name, i) => {
    const next = way[i + 1];
    return (name === source && next === target) || (name === target && next === source);
  }));
  return Math.min(1e10, ...on.map(({ bandwidth_bytes_per_s }) => bandwidth_bytes_per_s));
}

/** The moment on the screen: it goes from one state's to the next one's in the time that lay between them. */
export class Glide {
  private from = 0;
  private to = 0;
  private began = 0; // real seconds
  private takes = 0;
  private last = 0; // when the last state came

  /** A state has come. Backwards, after a pause or with `jump`, the screen shows it at once. */
  follow(now: number, real: number, jump: boolean): void {
    const shown = this.at(real);
    const gap = real - this.last;
    this.last = real;
    const still = jump || now < shown || gap > 4 * LONGEST_S;
    [this.from, this.to, this.began] = [still ? now : shown, now, real];
    this.takes = still ? 0 : Math.min(Math.max(gap, 0.016), LONGEST_S);
  }

  at(real: number): number {
    if (this.takes <= 0) return this.to;
    const part = Math.min(1, (real - this.began) / this.takes);
    return this.from + (this.to - this.from) * part;
  }

  isMoving(real: number): boolean {
    return this.takes > 0 && real < this.began + this.takes;
  }
}
