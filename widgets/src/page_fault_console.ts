import fault_console from "./fault_console.ts";
import { showAll } from "./page.ts";

showAll("fault_console", fault_console.render);
