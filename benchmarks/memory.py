"""The memory of a long notebook: many models of one architecture, and many architectures, each on a cluster of its own.

Each model is built, trained for one step and forgotten, without closing its cluster, as whoever runs a cell again does; they take
turns on parameter servers and on two replicas. Of one architecture, 200 models need what 100 need. Of many, the process keeps the
kernels that were used last (`simdist.caches`); the rest of what grows there is JAX's, which keeps code for every shape that it has seen
outside of steps (initial values): what ``sd.caches.clear()`` and then ``jax.clear_caches()`` give back is in the last lines.

Run: ``python -m simdist bench memory``, or this file with ``--quick`` for a few of each. Resident memory is read from /proc (Linux).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import simdist as sd
from simdist import keras

MODELS, ARCHITECTURES = 200, 60
X = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
LARGEST_GROWTH = 1.05


def one_step(width: int, on_servers: bool) -> None:
    """Build a model, train it for one step, and forget it and its cluster."""
    cluster = sd.Cluster({"worker": 2, "ps": 1} if on_servers else {})
    strategy: Any = sd.ParameterServerStrategy(cluster) if on_servers else sd.MirroredStrategy(2, cluster=cluster)
    with strategy.scope():
        model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.01), loss="mse")
    rows = sd.Dataset.from_tensor_slices((X, X[:, :1])).repeat().batch(16)
    model.fit(rows, epochs=1, steps_per_epoch=1, verbose=0)


def resident_mib() -> float:
    """The memory of this process, after what is free in it was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def kernels() -> sd.caches.CacheInfo:
    """How many kernels the process keeps."""
    return next(info for info in sd.caches.table() if info.name == "compiled kernels")


def line(title: str) -> float:
    """Print what the process holds now; return its resident memory."""
    mib = resident_mib()
    clusters = sum(isinstance(found, sd.Cluster) for found in gc.get_objects())
    print(f"{title:<44} {mib:>8.1f} MiB  {kernels().entries:>4} kernels  {clusters} clusters")
    return mib


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if the second half of the models of one architecture needs memory."""
    parser = argparse.ArgumentParser(description="Resident memory over many models.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    quick = parser.parse_args(arguments).quick
    models, architectures = (4, 2) if quick else (MODELS, ARCHITECTURES)
    for number in range(models // 2):
        one_step(8, number % 2 == 0)
    half = line(f"{models // 2} models of one architecture")
    for number in range(models // 2):
        one_step(8, number % 2 == 0)
    whole = line(f"{models} models of one architecture")
    for number in range(architectures):
        one_step(9 + number, number % 2 == 0)
    line(f"and {architectures} other architectures")
    sd.caches.clear()
    line("after sd.caches.clear()")
    jax.clear_caches()
    line("after jax.clear_caches()")
    print(f"of one architecture: {models} / {models // 2} models: {whole / half:.3f}")
    return int(not quick and (whole / half > LARGEST_GROWTH))


if __name__ == "__main__":
    sys.exit(main())
