"""Golden runs in a process of their own, with the engine of any tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["measured"]

SCRIPT = Path(__file__).with_name("measuring.py")


def measured(root: Path, names: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Measure the runs of this folder with the package ``simdist`` that lies in `root`.

    Args:
        root: the directory that has ``simdist/`` in it.
        names: of the runs; none: all.

    Returns:
        By name, what `tests.golden.measuring.measure` gives, or ``{"error": text}``.

    Raises:
        SystemExit: if the process itself failed, with what it wrote, or found another engine.
    """
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, str(SCRIPT), *names], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The golden runs with the engine of {root} ended with status {done.returncode}:\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    if lines[0]["engine"] != str(root.resolve()):
        sys.exit(f"The golden runs were to drive the engine of {root}, and drove that of {lines[0]['engine']}.")
    entries = lines[1:]
    return {entry.pop("name"): entry for entry in entries}
