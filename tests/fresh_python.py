"""New interpreters in which the package simdist is empty: a module of it loads what it needs itself, and not the whole engine with JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import simdist

__all__ = ["run_beside_engine"]

EMPTY = (
    f"import sys, types; sys.modules['simdist'] = package = types.ModuleType('simdist'); package.__path__ = {list(simdist.__path__)!r}\n"
)


def run_beside_engine(code: str, *words: str | Path, hash_seed: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter, and return how it ended; it takes a tenth of a second, and an import of the engine more than one.

    Args:
        code: may import modules such as ``simdist.trace``; none of them may need a name of ``simdist`` itself.
        words: ``sys.argv[1:]`` of the code.
        hash_seed: its ``PYTHONHASHSEED`` (default: that of this process).
    """
    seed = {} if hash_seed is None else {"PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", EMPTY + code, *words]
    return subprocess.run(command, env={**os.environ, **seed}, capture_output=True, text=True, check=False)
