"""Where a table lies: of one that was made in the scope of parameter servers, each worker has a copy.

Lookups inside closures and dataset functions are local, as every worker has all keys. All tasks of a cluster are one process here, so the
copies share their memory; what is kept is which tasks have one. A worker that is down has none, and has one again when it returns. A
table made outside of a scope, or in a dataset function on a worker, stays where it was made.

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from simdist.process_state import TaskLocal
from simdist.variables.placement_record import PlacementRecord

__all__ = ["TableCopies", "TableHolder", "holding_tables"]


class TableHolder(Protocol):
    """A strategy, as far as tables are concerned."""

    def hold_table(self, table: TableCopies, /) -> None:
        """Note that a table was made in the scope."""
        ...

    def tasks_with_tables(self) -> list[str]:
        """The tasks that have a copy of each table now."""
        ...


_holders: TaskLocal[list[TableHolder]] = TaskLocal(list)


@contextmanager
def holding_tables(holder: TableHolder) -> Iterator[None]:
    """Tables that are made inside, by this task, have their copies where the holder says."""
    holders = _holders.get()
    holders.append(holder)
    try:
        yield
    finally:
        holders.remove(holder)


class TableCopies:
    """The copies of one table.

    Args:
        name: of the table.
        size: gives how many entries it has now, and how many bytes these take.

    Attributes:
        base_name: as it was given.
        name: in shard maps and traces, where the holder may number those of one name.
    """

    def __init__(self, name: str, size: Callable[[], tuple[int, int]]) -> None:
        self.base_name = self.name = name
        self._size = size
        holders = _holders.get()
        self._holder = holders[-1] if holders else None

    def filled(self) -> None:
        """Note that the table has its entries, or other ones than before."""
        if self._holder is not None:
            self._holder.hold_table(self)

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values of one copy."""
        return self._size()[1]

    def placements(self) -> list[PlacementRecord]:
        """One record for each task that has a copy now; none for a table that belongs to no strategy."""
        if self._holder is None:
            return []
        entries, size_bytes = self._size()
        return [
            PlacementRecord(self.name, (entries,), "int64", 0, 1, task, 0, entries, size_bytes, "table")
            for task in self._holder.tasks_with_tables()
        ]
