import lab from "./lab.ts";
import { showAll } from "./page.ts";

showAll("lab", lab.render);
