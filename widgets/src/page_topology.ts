import topology from "./topology.ts";
import { showAll } from "./page.ts";

showAll("topology", topology.render);
