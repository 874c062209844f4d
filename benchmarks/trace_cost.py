"""What recording costs: a simulated run with its trace on against the same run with its trace off, and bytes for each span."""

from __future__ import annotations

import argparse
import time
import tracemalloc
from typing import Any

import numpy as np

import simdist as sd
from simdist.trace import Trace

WORKERS, PACK = 100, 10


def rate(enabled: bool, steps: int) -> float:
    """Worker-steps a second, timing only."""
    cluster = sd.Cluster({"worker": WORKERS, "ps": 2}, numerics="off")
    cluster.trace.enabled = enabled
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        w, b = sd.Variable(np.zeros((10, 1), np.float32), name="w"), sd.Variable(np.zeros(1, np.float32), name="b")

    @sd.function
    def step() -> Any:
        w.assign_add(w.value * 0.5)
        b.assign_add(b.value * 0.5)

    coordinator = sd.ClusterCoordinator(strategy)

    def run(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count // PACK):
            coordinator.schedule_steps(step, (), {}, PACK)
        coordinator.join()
        return count / (time.perf_counter() - began)

    run(2 * WORKERS * PACK)
    return max(run(steps) for _ in range(3))


def bytes_a_span(count: int) -> float:
    """Memory of a log of so many spans with two facts each, for each span."""
    tracemalloc.start()
    trace = Trace()
    for number in range(count):
        trace.span("worker:0", "apply", "sgd", float(number), number + 0.5, version=number, worker="worker:1")
    len(trace.spans.columns()["lane"])
    used = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    return used


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="A run with its trace on against the same run with its trace off.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    quick = parser.parse_args(arguments).quick
    on, off = (rate(enabled, 1_000 if quick else 20_000) for enabled in (True, False))
    print(f"{f'{WORKERS} workers, timing only, worker-steps/s':<46} {'trace on':>10} {'trace off':>10} {'time ratio':>10}")
    print(f"{'':<46} {on:>10,.0f} {off:>10,.0f} {off / on:>10.2f}")
    print(f"{'bytes a span, two facts each':<46} {bytes_a_span(10_000 if quick else 300_000):>10.0f}")


if __name__ == "__main__":
    main()
