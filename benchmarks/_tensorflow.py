"""Where TensorFlow is, and how its side of a comparison runs: in a process of its own, which prints its result as JSON."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MISSING = "TensorFlow is not installed here: pip install -e '.[bench-tf]', or give --tf-python PYTHON."
MISSING_STATUS = 2


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let the caller name another environment's Python."""
    parser.add_argument("--tf-python", default=sys.executable, help="a Python that has TensorFlow (default: this one)")


def has_tensorflow(python: str) -> bool:
    """Whether that Python finds TensorFlow, without importing it."""
    search = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
    try:
        return subprocess.run([python, "-c", search], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def tensorflow_side(python: str, script: str, *arguments: Any, timeout_s: float = 900) -> Any:
    """Run a script of bench_tf; its last line of output that is JSON is the result."""
    path = Path(__file__).parent / "bench_tf" / script
    command = [python, str(path), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    results = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not results:
        raise SystemExit(f"{' '.join(command[1:])} failed:\n{done.stderr[-2000:]}")
    return json.loads(results[-1])
