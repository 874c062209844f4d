"""Blocking calls of fibers against bare SimPy time-outs, in one run."""

from __future__ import annotations

import time

import simpy

from simdist.simulation.kernel import Clock

CALLS = 200_000


def fibers() -> float:
    """Blocking calls a second."""
    clock = Clock()

    def sleeper() -> None:
        for _ in range(CALLS):
            clock.sleep(1.0)

    began = time.perf_counter()
    clock.join(clock.spawn("task", sleeper))
    return CALLS / (time.perf_counter() - began)


def bare() -> float:
    """SimPy time-outs a second."""
    env = simpy.Environment()

    def sleeper():
        for _ in range(CALLS):
            yield env.timeout(1.0)

    env.process(sleeper())
    began = time.perf_counter()
    env.run()
    return CALLS / (time.perf_counter() - began)


if __name__ == "__main__":
    ours, theirs = max(fibers() for _ in range(3)), max(bare() for _ in range(3))
    print(f"{'blocking calls/s':<44} {'simdist':>12} {'bare SimPy':>12} {'ratio':>8}")
    print(f"{'one task, one call after the other':<44} {ours:>12,.0f} {theirs:>12,.0f} {ours / theirs:>8.2f}")
