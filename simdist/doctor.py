"""The doctor: a report of the packages and devices of this machine, and of what will be used.

It never fails because a package is missing or broken: that is what it is asked about. The same machine gives the same
lines, but for what is free on the disk and what the compilation cache holds.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simdist.compilation_cache import describe

__all__ = ["examine", "missing"]

NEEDED = {"numpy": "arrays", "jax": "all numbers", "simpy": "virtual time", "greenlet": "tasks that block", "optax": "optimizers"}
OPTIONAL = {
    "keras": "simdist.keras",
    "jupyterlab": "the lessons",
    "anywidget": "the widgets",
    "matplotlib": "static pictures",
    "sklearn": "the demo's data",
    "pandas": "trace.to_dataframe()",
    "tensorboard": "trace.to_tensorboard() and keras.callbacks.TensorBoard",
    "orbax-checkpoint": "checkpoints",
    "flatbuffers": "engines with isolated=True",
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def missing() -> list[str]:
    """The packages without which nothing runs, and that cannot be imported here."""
    return [name for name in NEEDED if isinstance(_imported(name), Exception)]


def examine() -> Iterator[str]:
    """The report, line by line."""
    yield f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    yield f"memory {_memory()}, {shutil.disk_usage(Path.cwd()).free / 1e9:.0f} GB free on disk"
    for name, purpose in NEEDED.items():
        yield _line(name, purpose, "MISSING: nothing runs without it; set up again with `make dev-environment`")
    for name, purpose in OPTIONAL.items():
        yield _line(name, purpose, "missing (optional; see the extras in pyproject.toml)")
    if not missing():
        yield from _numbers()
        yield from _keras()
        yield _trial()


def _line(name: str, purpose: str, otherwise: str) -> str:
    distribution = DISTRIBUTIONS.get(name, name)
    try:
        found = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        found = otherwise
    return f"  {distribution:<16} {found:<12} for {purpose}"


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a broken package must not break the doctor
        return error


def _numbers() -> Iterator[str]:
    import jax

    from simdist.program.kernels import compiler_options

    devices = ", ".join(f"{device.device_kind} ({device.platform}:{device.id})" for device in jax.devices())
    yield f"numbers are computed by JAX on: {devices}"
    yield f"  float64 {'on' if jax.config.read('jax_enable_x64') else 'off: integers become int32 and floats float32'}"
    options = ", ".join(f"{key}={value}" for key, value in compiler_options().items())
    yield f"  kernels are compiled {f'with {options}' if options else 'as JAX does'}"
    if jax.default_backend() != "cpu":
        yield "  equal bits of all plans are promised on CPUs alone"
    yield f"  {describe()}"
    yield '  numerics="deferred": late, one call an entry up to 2,047 entries, one compiled scan from there on'


def _keras() -> Iterator[str]:
    chosen = os.environ.get("KERAS_BACKEND", "jax")
    if chosen != "jax":
        yield f"  KERAS_BACKEND={chosen}, but simdist.keras needs jax: unset it, or set it to jax"
    loaded = sys.modules.get("keras")
    if loaded is not None and loaded.backend.backend() != "jax":
        yield f"  keras is loaded with the backend {loaded.backend.backend()}: start Python again with KERAS_BACKEND=jax"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"
    except (ValueError, OSError, AttributeError):
        return "unknown"


def _trial() -> str:
    """A tiny cluster, twice: the digests must be equal."""
    try:
        first, second = _tiny_run(), _tiny_run()
    except Exception as error:  # whatever is wrong is the diagnosis
        return f"a tiny cluster failed: {type(error).__name__}: {error}"
    again = "twice the same" if first == second else f"but {second} the second time: it is not deterministic here!"
    return f"a tiny cluster ran: {first}, {again}"


def _tiny_run() -> str:
    import simdist as sd

    with sd.Cluster({"worker": 2, "ps": 1}, seed=0) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(1.0, name="v")

        @sd.function
        def double() -> None:
            v.assign_add(v.value)

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(4):
            coordinator.schedule(double)
        coordinator.join()
        return f"v={float(v):g} at {cluster.now * 1e6:.1f} us, digest {cluster.trace.digest()}"
