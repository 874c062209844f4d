// A page for browser tests, the contact sheet and the benchmark: views on made-up runs, reached as `simdist` by the page.

import uPlot from "uplot";
import { mountBranchLine } from "./branch_line.ts";
import { fixtureLayout } from "./fixture_cluster.ts";
import { RowPacker } from "./fixture_rows.ts";
import { FixtureSource } from "./fixture_source.ts";
import { mountFaultConsole } from "./fault_console_view.ts";
import { mountLab } from "./lab_view.ts";
import { mountLiveTimeline } from "./live_timeline.ts";
import type { LoadPart, Parts } from "./parts.ts";
import type { Source } from "./source.ts";
import { mountTopology } from "./topology_view.ts";
import { mountTransport } from "./transport.ts";

const parts: Parts = { timeline: { mountLiveTimeline }, topology: { mountTopology }, fault_console: { mountFaultConsole }, uplot: { default: uPlot } };
const load: LoadPart = (name) => parts[name];
const mountWholeLab = (root: HTMLElement, source: Source): (() => void) => mountLab(root, source, load);

const simdist = { FixtureSource, RowPacker, mountLiveTimeline, fixtureLayout, mountBranchLine, mountFaultConsole, mountLab: mountWholeLab, mountTopology, mountTransport };
Object.assign(window, { simdist });
