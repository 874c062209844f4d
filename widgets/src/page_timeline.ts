import timeline, { mountLiveTimeline } from "./timeline.ts";
import { showAll } from "./page.ts";
import { offer } from "./page_parts.ts";

offer("timeline", { mountLiveTimeline });
showAll("timeline", timeline.render);
