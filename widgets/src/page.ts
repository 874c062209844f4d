// The exported page: finds the places of its widgets, reads their states from the page itself, and draws them.
//
//   <div data-simdist-widget="timeline" data-simdist-state="state-0"></div>
//   <script type="application/json" id="state-0"> {"values": {...}, "bytes": {"data": base64}} </script>

import collectiveStepper from "./collective_stepper.ts";
import { HostModel, type Render } from "./model.ts";
import shardMap from "./shard_map.ts";
import timeline from "./timeline.ts";

const WIDGETS: Readonly<Record<string, { render: Render }>> = {
  timeline,
  shard_map: shardMap,
  collective_stepper: collectiveStepper,
};

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

function show(place: HTMLElement): void {
  const stored = document.getElementById(place.dataset["simdistState"] ?? "");
  const state = JSON.parse(stored?.textContent ?? "") as State;
  const bytes = Object.entries(state.bytes).map(([name, text]) => [name, decodeBase64(text)] as const);
  const model = new HostModel({ ...state.values, ...Object.fromEntries(bytes) });
  WIDGETS[place.dataset["simdistWidget"] ?? ""].render({ model, el: place });
}

for (const place of document.querySelectorAll<HTMLElement>("[data-simdist-widget]")) {
  try {
    show(place);
  } catch (error) {
    place.textContent = `This widget could not be drawn: ${error instanceof Error ? error.message : error}`;
    throw error;
  }
}
