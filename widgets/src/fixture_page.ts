// A page for browser tests, the contact sheet and the benchmark: views on made-up runs, reached as `simdist` by the page.

import { fixtureLayout } from "./fixture_cluster.ts";
import { RowPacker } from "./fixture_rows.ts";
import { FixtureSource } from "./fixture_source.ts";
import { mountFaultConsole } from "./fault_console_view.ts";
import { mountLab } from "./lab_view.ts";
import { mountLiveTimeline } from "./live_timeline.ts";
import { mountTopology } from "./topology_view.ts";
import { mountTransport } from "./transport.ts";

const simdist = { FixtureSource, RowPacker, mountLiveTimeline, fixtureLayout, mountFaultConsole, mountLab, mountTopology, mountTransport };
Object.assign(window, { simdist });
