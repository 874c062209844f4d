// Bundles the front end, or its tests.
//
//   node build.mjs                     writes simdist_widgets/static, which is committed
//   node build.mjs --outdir=FOLDER     writes the same files elsewhere (a test compares the two)
//   node build.mjs --fixtures=FOLDER   bundles the views with made-up runs, for browser tests
//   node build.mjs --test              bundles src/*.test.ts and runs them with node's own test runner
//
// anywidget loads a module from a blob, where relative imports do not work: hence one file per widget. The Lab gets its parts, which
// are bundles as well, as texts (src/parts.ts).

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const WIDGETS = ["timeline", "shard_map", "collective_stepper", "lab", "topology", "fault_console"];
const FOREIGN = ["uplot"]; // a part of the Lab that others wrote
const NOTICE = "/* contains uPlot 1.6.32, (c) 2022 Leon Sorokin, under the MIT licence: see simdist_widgets/licenses/uplot.txt */";
const here = dirname(fileURLToPath(import.meta.url));
const common = { absWorkingDir: here, bundle: true, charset: "utf8", logLevel: "warning", target: "es2022" };

async function buildWidgets(outdir) {
  const release = { ...common, minify: true, outdir, legalComments: "none" };
  const sources = (prefix, ending, names = WIDGETS) => names.map((name) => `src/${prefix}${name}${ending}`);
  const noted = { ...release, banner: { js: NOTICE } };
  await build({ ...release, format: "esm", entryPoints: sources("", ".ts") });
  await build({ ...noted, format: "esm", entryPoints: sources("", ".ts", FOREIGN) });
  await build({ ...release, entryPoints: [...sources("", ".css"), "src/page.css"] });
  await build({ ...release, format: "iife", entryPoints: sources("page_", ".ts") }); // for exported pages
  await build({ ...noted, format: "iife", entryPoints: sources("page_", ".ts", FOREIGN) });
}

async function buildFixtures(outdir) {
  const settings = { ...common, outdir, legalComments: "none" };
  await build({ ...settings, format: "iife", entryPoints: ["src/fixture_page.ts"] });
  await build({ ...settings, entryPoints: ["src/lab.css"] });
}

async function runTests() {
  const outdir = join(here, "node_modules", ".simdist-tests");
  rmSync(outdir, { recursive: true, force: true });
  const entryPoints = readdirSync(join(here, "src"))
    .filter((name) => name.endsWith(".test.ts"))
    .sort()
    .map((name) => `src/${name}`);
  const settings = { ...common, format: "esm", platform: "node", outExtension: { ".js": ".mjs" } };
  await build({ ...settings, entryPoints, outdir, outbase: "src" });
  const files = readdirSync(outdir).sort().map((name) => join(outdir, name));
  return spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
}

const argument = process.argv[2] ?? "";
if (argument === "--test") {
  process.exitCode = await runTests();
} else if (argument.startsWith("--fixtures=")) {
  await buildFixtures(argument.slice(11));
} else {
  await buildWidgets(argument.startsWith("--outdir=") ? argument.slice(9) : "simdist_widgets/static");
}
