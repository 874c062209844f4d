"""The traffic of variables: how often each shard was read and updated by steps, and the bytes that travelled for it.

Taught in lesson 05.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.variables.state import PlacementRecord

__all__ = ["CellTraffic", "TrafficRecord"]


@dataclass
class CellTraffic:
    """What has travelled for one cell; `version` is how often the values of its group have changed."""

    reads: int = 0
    updates: int = 0
    bytes_read: int = 0
    bytes_updated: int = 0
    version: int = 0


@dataclass(frozen=True)
class TrafficRecord(PlacementRecord):
    """One line of a shard map with the traffic of its shard: what lies where, and how much it was used.

    Attributes:
        reads, updates: how many calls of steps asked for it, or brought a change of it, over the network. Where rows are read, calls that
            asked for at least one of its rows.
        bytes_read, bytes_updated: that travelled for it, with the row numbers where rows travel.
        version: how often its values have changed, together with those of its group.
        staleness: mean of the updates that its task applied; None where none is known.

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

    @property
    def bytes_travelled(self) -> int:
        """Bytes of reads and of updates together."""
        return self.bytes_read + self.bytes_updated
