"""Saving and restoring: `sd.Checkpoint` against plain Orbax on the same arrays, in real seconds.

What we do beside Orbax: collect the values, checksums, a manifest, and virtual time on the disk. A ratio is our seconds over those of
Orbax; the least of some rounds counts, taken in turn.

Run: ``python -m simdist bench saving``, or this file with ``--quick`` for one small model and one round.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import simdist as sd

SIZES = {"4 arrays of 1 kB": (4, 256), "40 arrays of 64 kB": (40, 16384), "8 arrays of 8 MB": (8, 2 << 20)}


def least(rounds: int, *functions: Callable[[Path], object]) -> list[float]:
    """The least seconds of each function, which get a new path in each round, taken in turn."""
    found = [float("inf")] * len(functions)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for place, function in enumerate(functions):
                path = Path(folder, f"{place}-{number}")
                began = time.perf_counter()
                function(path)
                found[place] = min(found[place], time.perf_counter() - began)
    return found


def row(count: int, length: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of (ours, plain Orbax) for a save, and for a restore."""
    import orbax.checkpoint as orbax

    with sd.Cluster({"worker": 1, "ps": 2}) as cluster:
        with sd.ParameterServerStrategy(cluster).scope():
            variables = {f"v{number}": sd.Variable(np.full(length, 0.5, "float32")) for number in range(count)}
        ours, plain = sd.Checkpoint(**variables), orbax.PyTreeCheckpointer()
        arrays = {name: variable.numpy() for name, variable in variables.items()}
        saves = least(rounds, lambda path: ours.write(str(path)), lambda path: plain.save(path, arrays))
        with tempfile.TemporaryDirectory() as folder:
            own, other = Path(folder, "own"), Path(folder, "other")
            ours.write(str(own))
            plain.save(other, arrays)
            restores = least(rounds, lambda _: ours.restore(str(own)).assert_consumed(), lambda _: plain.restore(other))
    return saves, restores


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="sd.Checkpoint against plain Orbax.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    options = parser.parse_args(arguments)
    sizes = dict(list(SIZES.items())[:1]) if options.quick else SIZES
    print(f"{'':<22} {'save':>9} {'Orbax':>9} {'ratio':>6}   {'restore':>9} {'Orbax':>9} {'ratio':>6}")
    for name, (count, length) in sizes.items():
        (saved, saved_plain), (restored, restored_plain) = row(count, length, 1 if options.quick else 5)
        print(
            f"{name:<22} {saved * 1e3:>6.1f} ms {saved_plain * 1e3:>6.1f} ms {saved / saved_plain:>6.2f}   "
            f"{restored * 1e3:>6.1f} ms {restored_plain * 1e3:>6.1f} ms {restored / restored_plain:>6.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
