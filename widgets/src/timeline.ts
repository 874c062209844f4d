// sw.Timeline: the view of a timeline, on the model of a widget.

import type { Model, RenderContext } from "./model.ts";
import type { TimelineSource } from "./timeline_source.ts";
import { mountTimeline } from "./timeline_view.ts";
import { decode, type TraceHeader } from "./trace_data.ts";

function sourceOf(model: Model): TimelineSource {
  const bytes = model.get("data");
  const data = decode(model.get("header") as TraceHeader, bytes instanceof DataView ? bytes : new DataView(new ArrayBuffer(0)));
  return {
    data: () => data,
    view: () => (model.get("view_s") ?? []) as readonly number[],
    saveView(view) {
      model.set("view_s", view);
      model.save_changes();
    },
    watchView(changed) {
      model.on("change:view_s", changed);
      return () => model.off("change:view_s", changed);
    },
  };
}

export default { render: ({ model, el }: RenderContext): (() => void) => mountTimeline(el, sourceOf(model)) };

export { mountLiveTimeline } from "./live_timeline.ts"; // for the Lab, of which this bundle is a part
