// Who wants to hear of what.

export class Listeners<Event extends string> {
  private readonly known = new Map<Event, Set<() => void>>();

  /** Calls `listener` whenever `event` is said; returns what ends that. */
  on(event: Event, listener: () => void): () => void {
    const of = this.known.get(event) ?? new Set();
    this.known.set(event, of.add(listener));
    return () => void of.delete(listener);
  }

  say(event: Event): void {
    for (const listener of [...(this.known.get(event) ?? [])]) listener();
  }
}
