import timeline from "./timeline.ts";
import { showAll } from "./page.ts";

showAll("timeline", timeline.render);
