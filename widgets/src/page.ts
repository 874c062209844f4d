// The exported page: finds the places of one sort of widget, reads their states from the page itself, and draws them.
// page_timeline.ts and its like are the bundles; a page holds those of the widgets that it shows.
//
//   <div data-simdist-widget="timeline" data-simdist-state="state-0"></div>
//   <script type="application/json" id="state-0"> {"values": {...}, "bytes": {"data": base64}} </script>

import { HostModel, type Render } from "./model.ts";

interface State {
  readonly values: Readonly<Record<string, unknown>>;
  readonly bytes: Readonly<Record<string, string>>;
}

function decodeBase64(text: string): DataView {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new DataView(bytes.buffer);
}

function show(place: HTMLElement, render: Render): void {
  const stored = document.getElementById(place.dataset["simdistState"] ?? "");
  const state = JSON.parse(stored?.textContent ?? "") as State;
  const bytes = Object.entries(state.bytes).map(([name, text]) => [name, decodeBase64(text)] as const);
  const model = new HostModel({ ...state.values, ...Object.fromEntries(bytes) });
  render({ model, el: place });
}

/** Draws all widgets of this name. */
export function showAll(name: string, render: Render): void {
  for (const place of document.querySelectorAll<HTMLElement>(`[data-simdist-widget="${name}"]`)) {
    try {
      show(place, render);
    } catch (error) {
      place.textContent = `This widget could not be drawn: ${error instanceof Error ? error.message : error}`;
      throw error;
    }
  }
}
