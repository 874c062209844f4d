import fault_console, { mountFaultConsole } from "./fault_console.ts";
import { showAll } from "./page.ts";
import { offer } from "./page_parts.ts";

offer("fault_console", { mountFaultConsole });
showAll("fault_console", fault_console.render);
