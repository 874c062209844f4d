"""Invariants of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simdist.chaos.evidence import Evidence, Invariant

__all__ = ["CHECKPOINTS"]


def _restored_as_saved(evidence: Evidence) -> Iterator[str]:
    for run in (evidence.run, evidence.calm):
        for number, (saved, restored) in enumerate(run.stage.restores):
            if saved.tobytes() != restored.tobytes():
                yield f"restore {number} gave {np.ravel(restored).tolist()}, saved was {np.ravel(saved).tolist()}"


CHECKPOINTS = [
    Invariant("restored-as-saved", "A restore gives exactly what was saved, or an error.", _restored_as_saved),
]
