"""The traffic of variables: how often each shard was read and updated by steps, and the bytes that travelled for it.

Taught in lesson 06.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simdist.program.arrays import HostArray
from simdist.variables.placement_record import PlacementRecord

__all__ = ["CellTraffic", "HotRow", "TrafficRecord", "hottest_rows"]


class HotRow(NamedTuple):
    """A row of a table, and how often it was used.

    Attributes:
        row: its number in the whole table.
        task: that holds it.
        reads, updates: how many reads of steps asked for it, and how many updates brought a gradient of it, however many ids meant it.
    """

    row: int
    task: str
    reads: int
    updates: int


def hottest_rows(task: str, first: int, reads: HostArray, updates: HostArray, count: int) -> list[HotRow]:
    """Those rows of a shard that were read most; of equal ones those that were updated more often, then the first.

    Args:
        task: that holds the shard.
        first: number of its first row.
        reads, updates: of each row [s].
        count: how many at most; rows that no step has read are left out.
    """
    least = max(1, np.partition(reads, -count)[-count]) if 0 < count < len(reads) else 1
    found = np.flatnonzero(reads >= least)
    found = found[np.lexsort((found, -updates[found], -reads[found]))][:count]
    return [HotRow(first + row, task, int(reads[row]), int(updates[row])) for row in found.tolist()]


@dataclass
class CellTraffic:
    """What has travelled for one cell; `version` is how often the values of its group have changed.

    Attributes:
        row_uses: the reads and the updates of each row of a shard of a table [s]; None where steps have looked up no rows of it.
    """

    reads: int = 0
    updates: int = 0
    bytes_read: int = 0
    bytes_updated: int = 0
    version: int = 0
    row_uses: tuple[HostArray, HostArray] | None = None


@dataclass(frozen=True)
class TrafficRecord(PlacementRecord):
    """One line of a shard map with the traffic of its shard: what lies where, and how much it was used.

    Attributes:
        reads, updates: how many calls of steps asked for it, or brought a change of it, over the network. Where rows are read, calls that
            asked for at least one of its rows. A call counts when it is sent, also where its closure is run again, or counts in no round.
        bytes_read, bytes_updated: that travelled for it, with the row numbers where rows travel.
        version: how often its values have changed, together with those of its group.
        staleness: mean of the updates that its task applied; None where none is known.
        hot_rows: those that steps have looked up most often, at most three, the hottest first.

    Example:
        >>> place = ("table", (8, 4), "float32", 0, 2, "ps:0", 0, 4, 64, "parameter")
        >>> TrafficRecord(*place, reads=3, bytes_read=192).bytes_travelled
        192
    """

    reads: int = 0
    updates: int = 0
    bytes_read: int = 0
    bytes_updated: int = 0
    version: int = 0
    staleness: float | None = None
    hot_rows: tuple[HotRow, ...] = ()

    @property
    def bytes_travelled(self) -> int:
        """Bytes of reads and of updates together."""
        return self.bytes_read + self.bytes_updated
