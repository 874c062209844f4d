"""What is kept of a golden run: the digest of its trace, how much happened until when, and what its numbers were.

Run as a script it measures runs in a process of its own, and prints one line of JSON for each:
``python tests/golden/measuring.py [NAME ...]``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    # Alone, the script drives the engine of PYTHONPATH, which stays in front, with the runs that lie beside it, which come next.
    sys.path[0:2] = [sys.path[1], str(ROOT)]
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402

__all__ = ["measure"]


def measure(name: str) -> dict[str, Any]:
    """Run one golden run.

    Returns:
        ``digest``, ``records`` (a digest of the records, whatever the format of digests is), ``spans``,
        ``end_s`` (the exact virtual second, as text), ``numbers`` (the sum of magnitudes and the largest of each array,
        to five digits, the same on every processor) and ``bits`` (SHA-256 of each array, for one machine only).
    """
    from simdist import keras
    from tests.golden.first_format import first_format_digest
    from tests.golden.runs import RUNS

    # Names of layers are counted, and stand in traces. A collection of garbage takes a second where many tests have run before.
    keras.utils.clear_session(free_memory=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry", UserWarning)
        cluster, numbers = RUNS[name]()
        arrays = [np.asarray(number) for number in numbers]
        trace = cluster.trace
        found = {
            "digest": trace.digest(),
            "records": first_format_digest(trace),
            "spans": len(trace.spans),
            "end_s": repr(float(cluster.now)),
        }
        cluster.close()
    return {**found, "numbers": [rounded(array) for array in arrays], "bits": [bits(array) for array in arrays]}


def rounded(array: np.ndarray) -> list[str]:
    """The sum of magnitudes and the largest value; sums of both signs would cancel, and the rest be noise."""
    if not array.size:
        return []
    values = array.astype(np.float64)
    return [f"{np.abs(values).sum():.5g}", f"{values.max():.5g}"]


def bits(array: np.ndarray) -> str:
    """The type, the shape and every bit."""
    return hashlib.sha256(f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def main() -> None:
    """Measure the runs that are named, or all."""
    import simdist
    from simdist.compilation_cache import switch_on
    from tests.golden.runs import RUNS

    switch_on()
    print(json.dumps({"engine": str(Path(simdist.__file__).resolve().parents[1])}), flush=True)
    for name in sys.argv[1:] or RUNS:
        try:
            found = measure(name)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"name": name, **found}), flush=True)


if __name__ == "__main__":
    main()
