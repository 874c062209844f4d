import topology, { mountTopology } from "./topology.ts";
import { showAll } from "./page.ts";
import { offer } from "./page_parts.ts";

offer("topology", { mountTopology });
showAll("topology", topology.render);
