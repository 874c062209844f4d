// What a widget may ask of its model: the part of anywidget's interface that we use. In Jupyter, anywidget provides
// it; in an exported page, HostModel does.

export interface Model {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  on(event: string, listener: (...values: unknown[]) => void): void;
  off(event: string, listener: (...values: unknown[]) => void): void;
  save_changes(): void;
  /** Sends a message to the kernel; missing where there is none. */
  send?(message: unknown): void;
}

export interface RenderContext {
  readonly model: Model;
  readonly el: HTMLElement;
}

/** Draws a widget into `el`; returns what ends it. */
export type Render = (context: RenderContext) => () => void;

/** A model without a kernel: values and listeners, and nobody to save to. */
export class HostModel implements Model {
  private readonly values: Map<string, unknown>;
  private readonly listeners = new Map<string, Set<() => void>>();

  constructor(values: Readonly<Record<string, unknown>>) {
    this.values = new Map(Object.entries(values));
  }

  get(key: string): unknown {
    return this.values.get(key);
  }

  set(key: string, value: unknown): void {
    if (Object.is(this.values.get(key), value)) return;
    this.values.set(key, value);
    for (const event of [`change:${key}`, "change"]) {
      for (const listener of [...(this.listeners.get(event) ?? [])]) listener();
    }
  }

  on(event: string, listener: () => void): void {
    const known = this.listeners.get(event) ?? new Set();
    this.listeners.set(event, known.add(listener));
  }

  off(event: string, listener: () => void): void {
    this.listeners.get(event)?.delete(listener);
  }

  save_changes(): void {}
}
