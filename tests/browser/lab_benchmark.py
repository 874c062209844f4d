"""How long the browser takes for one frame of the Lab: a million spans in the timeline, and a run of 100 workers that plays.

python tests/browser/lab_benchmark.py

For each action: the time of the scripts of one frame (median and 95th percentile), and the time from one frame to the next while frames
follow each other (median; 16.7 ms is the fastest there is), which has the painting too. All in a headless Chromium without a graphics
card, with one and with two pixels of the screen for each of the page.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from fixture_pages import bundle, chromium_browser, fixture_page, why_not

SPANS = 1_000_000
LANES = (64, 1000)
RATIOS = (1, 2)  # pixels of the screen for each of the page, in each direction
WORKERS = 100
STATES_A_SECOND = 20

# Counts what scripts do between two frames; `measure(n, act)` does something n times, once a frame.
MEASURE_JS = """
const nextFrame = window.requestAnimationFrame.bind(window);
let spent = 0;
window.requestAnimationFrame = (draw) => nextFrame((time) => {
    const from = performance.now();
    draw(time);
    spent += performance.now() - from;
});
window.measure = async (times, act) => {
    const scripts = [], gaps = [];
    let before = 0;
    for (let i = 0; i <= times; i++) {
        const now = await new Promise((done) => nextFrame(done));
        if (i > 0) [scripts[i - 1], gaps[i - 1]] = [spent, now - before];
        [before, spent] = [now, 0];
        const from = performance.now();
        if (i < times) act(i);
        spent += performance.now() - from;
    }
    for (const list of [scripts, gaps]) list.sort((a, b) => a - b);
    return [scripts[times >> 1], scripts[Math.floor(times * 0.95)], gaps[times >> 1]];
};
"""

FILL_JS = """
const [spans, lanes] = ARGUMENTS;
const source = (window.source = new simdist.FixtureSource({ workers: 4 }));
const { kinds, marks } = source.layout;
const packer = new simdist.RowPacker(7, kinds.map(({ name }) => name), marks.map(({ name }) => name));
const work = ['read', 'compute', 'update', 'closure'];
let batch = [], appending = 0;
const flush = () => {
    const message = packer.pack(batch);
    const from = performance.now();
    source.addRows(...message);
    appending += performance.now() - from;
    batch = [];
};
for (let i = 0; i < spans / lanes; i++) for (let lane = 0; lane < lanes; lane++) {
    const category = work[i % 4], first = Math.floor(i / 4) * 4 + 0.01 * (lane % 7);
    const [start, end] = category === 'closure' ? [first, first + 3.9] : [first + (i % 4) * 1.3, first + (i % 4) * 1.3 + 1.2];
    batch.push({ lane: `worker:${lane}`, category, name: category, start: start * 1e-4, end: end * 1e-4 });
    if (batch.length === 20000) flush();
}
flush();
simdist.mountLiveTimeline(place, source, { branch: () => 7 });
await wait(300);
document.querySelectorAll('.sdw-bar button')[5].click();
await wait(200);
const plot = document.querySelector('.sdw-plot'), box = plot.getBoundingClientRect();
const at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true });
const wheel = (more) => plot.dispatchEvent(new WheelEvent('wheel', { ctrlKey: true, ...at(400, 50), ...more }));
const result = { 'append 1,000 rows': [appending / source.trace(7).spans.count * 1000, NaN, NaN] };
result['all of it'] = await measure(20, (i) => wheel({ deltaY: i % 2 ? -2 : 2 }));
result['zoom in'] = await measure(40, () => wheel({ deltaY: -60 }));
result['zoom out'] = await measure(40, () => wheel({ deltaY: 60 }));
wheel({ deltaY: -400 });
result['pan'] = await measure(40, (i) => wheel({ ctrlKey: false, deltaX: i < 20 ? 30 : -30 }));
result['point'] = await measure(40, (i) => plot.dispatchEvent(new PointerEvent('pointermove', at(100 + i * 10, 40 + i * 3))));
result['scroll'] = await measure(40, (i) => { document.querySelector('.sdw-scroll').scrollTop = i * 20; });
return result;
"""

PLAY_JS = """
const [workers, rate] = ARGUMENTS;
const source = lab({ workers, end_s: 0.12 });
source.obey('play', {});
clearInterval(source.timer);
source.advance(0.02);
await wait(300);
return { [`a state of ${workers} workers, and its rows`]: await measure(60, () => source.advance(0.01 / rate)) };
"""


def times(page: Any, script: str, *arguments: int) -> dict[str, list[float]]:
    text = script.replace("ARGUMENTS", str(list(arguments)))
    return page.evaluate(f"(async () => {{ {text} }})()")


def main() -> int:
    """The command line; returns the exit status."""
    reason = why_not()
    if reason:
        print(reason)
        return 2
    with tempfile.TemporaryDirectory() as folder, chromium_browser() as browser:
        path = bundle(Path(folder))
        fill = [(f"{SPANS:,} spans in {lanes} lanes", FILL_JS, (SPANS, lanes)) for lanes in LANES]
        runs = [*fill, (f"playing, {STATES_A_SECOND} states a second", PLAY_JS, (WORKERS, STATES_A_SECOND))]
        for (title, script, arguments), ratio in product(runs, RATIOS):
            with fixture_page(browser, path, device_scale_factor=ratio) as page:
                page.evaluate(MEASURE_JS)
                print(f"{title}, pixel ratio {ratio}".ljust(38) + "  scripts         late       frame")
                for name, (median, late, gap) in times(page, script, *arguments).items():
                    print(
                        f"  {name:<36}"
                        + "".join(f"{value:8.1f} ms" for value in (median, late, gap) if value is not None and value == value)
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
