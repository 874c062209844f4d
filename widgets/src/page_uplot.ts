import uPlot from "uplot";
import { offer } from "./page_parts.ts";

offer("uplot", { default: uPlot });
