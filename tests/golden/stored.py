"""`digests.json`: what golden runs have to give, on every machine; exact bits are not in it, since they differ between processors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["differences", "read", "write"]

FILE = Path(__file__).with_name("digests.json")
KEPT = ("digest", "spans", "end_s", "numbers")
RELATIVE, ABSOLUTE = 1e-4, 1e-6  # another processor may round differently, and the fifth digit then


def read() -> dict[str, dict[str, Any]]:
    """What is stored, by name of the run."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def write(entries: dict[str, dict[str, Any]]) -> None:
    """Store entries, one run a line, sorted, so that a diff shows the runs that changed."""
    lines = [f"{json.dumps(name)}: {json.dumps({key: entries[name][key] for key in KEPT})}" for name in sorted(entries)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def differences(stored: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """In words, what two entries do not have in common."""
    words = [f"{key} {stored[key]} -> {found[key]}" for key in KEPT[:3] if stored[key] != found[key]]
    if len(stored["numbers"]) != len(found["numbers"]):
        return [*words, f"{len(stored['numbers'])} arrays -> {len(found['numbers'])} arrays"]
    for device, (old, new) in enumerate(zip(stored["numbers"], found["numbers"], strict=True)):
        if not _close(old, new):
            words.append(f"array {device} (sum of magnitudes, largest) {old} -> {new}")
    return words


def _close(old: list[str], new: list[str]) -> bool:
    if len(old) != len(new):
        return False
    first, second = (np.array([float(text) for text in texts]) for texts in (old, new))
    return bool(np.isclose(first, second, RELATIVE, ABSOLUTE, equal_nan=True).all())
