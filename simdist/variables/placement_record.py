"""One line of a shard map: which part of a variable a task holds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PlacementRecord"]


@dataclass(frozen=True)
class PlacementRecord:
    """One line of a shard map: rows of a variable, and the task that holds them.

    Attributes:
        shape: of the whole variable.
        row_start, row_stop: the rows; of a variable that is partitioned along another axis, the indices along that one.
        axis: along which it is partitioned.
        slot_of: of an optimizer's slot, the variable that it belongs to.
        namesake: in the shard map of a strategy, which of several variables of this name it is: 0 for the first one.
    """

    variable: str
    shape: tuple[int, ...]
    dtype: str
    shard: int
    num_shards: int
    task: str
    row_start: int
    row_stop: int
    size_bytes: int
    kind: str
    axis: int = 0
    slot_of: str = ""
    namesake: int = 0
