"""What tests ask of replicas: who runs, and what each of them has."""

from __future__ import annotations

from typing import Any

import numpy as np

import simdist as sd


def here() -> Any:
    """The context of the replica that runs now."""
    context = sd.get_replica_context()
    assert context is not None
    return context


def rank() -> int:
    """Which replica runs now."""
    return here().replica_id_in_sync_group


def each(strategy: Any, value: Any) -> list[Any]:
    """The value of each replica, as numbers and lists."""
    return [np.asarray(part).tolist() for part in strategy.local_results(value)]
