"""Blocking calls of fibers against bare SimPy time-outs, in one run."""

from __future__ import annotations

import argparse
import time

import simpy

from simdist.simulation.kernel import Clock


def fibers(calls: int) -> float:
    """Blocking calls a second."""
    clock = Clock()

    def sleeper() -> None:
        for _ in range(calls):
            clock.sleep(1.0)

    began = time.perf_counter()
    clock.join(clock.spawn("task", sleeper))
    return calls / (time.perf_counter() - began)


def bare(calls: int) -> float:
    """SimPy time-outs a second."""
    env = simpy.Environment()

    def sleeper():
        for _ in range(calls):
            yield env.timeout(1.0)

    env.process(sleeper())
    began = time.perf_counter()
    env.run()
    return calls / (time.perf_counter() - began)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Blocking calls of fibers against bare SimPy time-outs.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    calls = 2_000 if parser.parse_args(arguments).quick else 200_000
    ours, theirs = max(fibers(calls) for _ in range(3)), max(bare(calls) for _ in range(3))
    print(f"{'blocking calls/s':<44} {'simdist':>12} {'bare SimPy':>12} {'ratio':>8}")
    print(f"{'one task, one call after the other':<44} {ours:>12,.0f} {theirs:>12,.0f} {ours / theirs:>8.2f}")


if __name__ == "__main__":
    main()
