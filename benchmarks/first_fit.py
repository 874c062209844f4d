"""The first fit of a new process: without the compilation cache, filling it, and with the filled one.

The program is the demo's: digits on 3 workers and 2 parameter servers. Seconds are those of training and evaluation, imports
left out; each row is a process of its own. The digests must be equal. The bytecode of modules is kept between the processes, as it
is where a program runs for the second time: some modules of JAX are imported by the first fit.

Run: ``python -m simdist bench first_fit``, or this file with ``--quick`` for one epoch of one step.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from simdist.compilation_cache import ENABLED, THRESHOLDS, WHERE

DEMO = Path(__file__).resolve().parents[1] / "examples" / "digits_ps.py"
QUICK = {"EPOCHS": 1, "STEPS_PER_EPOCH": 5}


def fit(quick: bool) -> tuple[float, str]:
    """Seconds of the first fit in this process, and the digest of its trace."""
    import simdist as sd
    from simdist import keras  # noqa: F401  (loaded before the time is taken)

    demo: dict[str, Any] = runpy.run_path(str(DEMO))
    program, cluster = demo["program"], sd.Cluster(demo["CLUSTER"], seed=0)
    program.__globals__.update(QUICK if quick else {})
    with cluster:
        began = time.perf_counter()
        program(cluster, epochs=program.__globals__["EPOCHS"], verbose=0)
        return time.perf_counter() - began, cluster.trace.digest()


def in_a_process(folder: Path | None, bytecode: Path, quick: bool) -> tuple[float, str]:
    """The same in a process whose cache is in a folder, or that has none; bytecode is kept in another folder."""
    own = {name: value for name, value in os.environ.items() if name not in (WHERE, ENABLED, "PYTHONDONTWRITEBYTECODE")}
    own["PYTHONPYCACHEPREFIX"] = str(bytecode)
    cache = {ENABLED: "false"} if folder is None else {WHERE: str(folder), **dict.fromkeys(THRESHOLDS, "0")}
    command = [sys.executable, __file__, "--here", *(["--quick"] if quick else [])]
    done = subprocess.run(command, env={"KERAS_BACKEND": "jax", **own, **cache}, stdout=subprocess.PIPE, text=True, check=True)
    seconds, digest = done.stdout.split()
    return float(seconds), digest


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if the digests differ."""
    parser = argparse.ArgumentParser(description="The first fit of a process, with and without the compilation cache.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    parser.add_argument("--here", action="store_true", help="fit in this process, and print the seconds and the digest")
    options = parser.parse_args(arguments)
    if options.here:
        print(*fit(options.quick))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cache")
        rows = {"no cache": None, "filling an empty cache": path, "with the filled cache": path}
        found = {name: in_a_process(cache, Path(folder, "bytecode"), options.quick) for name, cache in rows.items()}
        files = list(path.glob("*"))
        size_kb = sum(file.stat().st_size for file in files) / 1e3
    for name, (seconds, digest) in found.items():
        print(f"{name:<28} {seconds:>6.2f} s   {digest}")
    print(f"{'the cache':<28} {len(files)} files, {size_kb:.0f} kB")
    return int(len({digest for _, digest in found.values()}) != 1)


if __name__ == "__main__":
    sys.exit(main())
