"""What a checkpoint holds, in memory: between the parts of a program and the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simdist.program.arrays import HostArray
from simdist.program.saved_parts import SavedState

__all__ = ["KEPT", "REPLICA_VALUES", "Contents"]

REPLICA_VALUES = "replica_values"
"""Below this path are the values of all replicas, of variables with replica-local ones."""
KEPT = "simdist/kept"
"""Below this path is what strategies keep from step to step."""


@dataclass
class Contents:
    """What a checkpoint holds, in memory.

    Attributes:
        arrays: by path.
        names: what their owners call them.
        states: plain data by path.
        replicas: of arrays with replica-local values: how many, by path.
        rules: which variables each rule of an Optax optimizer has, by the path of the optimizer.
        slots: whose the variables of Keras optimizers are, by path (`simdist.checkpoint.slot_labels`).
    """

    arrays: dict[str, HostArray] = field(default_factory=dict[str, HostArray])
    names: dict[str, str] = field(default_factory=dict[str, str])
    states: dict[str, SavedState] = field(default_factory=dict[str, SavedState])
    replicas: dict[str, int] = field(default_factory=dict[str, int])
    rules: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    slots: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
