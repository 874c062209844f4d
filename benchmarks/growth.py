"""What a very large cluster costs: 10,000 asynchronous workers on 2 parameter servers, timing only, until the log has a million spans.

The rate of worker-steps is set against what bare SimPy does in the same run, on the same machine: time-outs a second of one process. Both
are the best of several parts, taken in turns. The linear model and the closures of ten steps are those of async_workers.py. The memory is
that of the whole process, at most, with what was imported, the whole log and its summary.

Run: ``python -m simdist bench growth``, or this file with ``--quick`` for a few workers. Resident memory is read from /proc (Linux).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from async_workers import PACK, simulation
from kernel import bare

WORKERS, PARTS, TIMEOUTS = 10_000, 2, 200_000


class Growth(NamedTuple):
    """What was measured; times in seconds."""

    build_s: float
    rate: float  # worker-steps a second
    timeouts: float  # of bare SimPy, a second
    spans: int
    summary_s: float
    peak_gb: float


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def growth(workers: int, timeouts: int) -> Growth:
    """Build a cluster of so many workers; let each run a closure, which fills caches, and then, in parts that are measured, one more."""
    began = time.perf_counter()
    cluster, coordinator, step, iterator, _ = simulation("linear", workers, "off")
    build_s = time.perf_counter() - began

    def run(closures: int) -> None:
        for _ in range(closures):
            coordinator.schedule_steps(step, (iterator,), {}, PACK)
        coordinator.join()

    run(workers)
    share = workers // PARTS
    parts = [(seconds(partial(run, share)), bare(timeouts)) for _ in range(PARTS)]
    rate, simpy = share * PACK / min(took_s for took_s, _ in parts), max(done for _, done in parts)
    summary_s = min(seconds(cluster.trace.summary) for _ in range(PARTS))
    return Growth(build_s, rate, simpy, len(cluster.trace.spans), summary_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="A very large cluster, timing only, against bare SimPy's time-outs.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    quick = parser.parse_args(arguments).quick
    workers, timeouts = (20, 2_000) if quick else (WORKERS, TIMEOUTS)
    found = growth(workers, timeouts)
    header = f"{'steps/s':>10} {'bare SimPy':>12} {'ratio':>7} {'build, s':>9} {'spans':>10} {'summary, s':>11} {'GB':>6}"
    print(f"{'timing only, 2 parameter servers':<34} {header}")
    print(
        f"{f'{workers:,} workers':<34} {found.rate:>10,.0f} {found.timeouts:>12,.0f} {found.rate / found.timeouts:>7.4f} "
        f"{found.build_s:>9.3g} {found.spans:>10,} {found.summary_s:>11.3g} {found.peak_gb:>6.2f}"
    )


if __name__ == "__main__":
    main()
