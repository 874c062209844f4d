"""In which order a round changes the groups of a server, and which of its updates are one change.

The updates of a round are taken in the order of the coordinator's tickets. What several attempts do to the same cells is one change where
that has the same effect: increments are added up, and of assignments the last one counts. Gradients are averaged, when the last attempt of
the round has had its turn. Changes of single elements are made one after the other.

Invariant: but for averages, a round leaves what its closures would leave one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from simdist.runtime.linked import Apply

__all__ = ["in_order"]


class HasUpdate(Protocol):
    """An update that was kept for its round."""

    @property
    def update(self) -> Apply: ...


Kept = TypeVar("Kept", bound=HasUpdate)
Key = tuple[int, Hashable, int]
"""The group, what is done to it (`Apply.combined_by`), and which of the updates of its attempt with both it is."""


def in_order(attempts: Iterable[Sequence[Kept]]) -> list[list[Kept]]:
    """The changes of a round: the updates that are combined, in the order in which they count.

    Args:
        attempts: the updates of each attempt, in the order of the tickets.
    """
    order: _Order[Kept] = _Order()
    for key, kept in _averages_last(attempts):
        order.add(key, kept)
    return [change.updates for change in sorted(order.changes, key=lambda change: change.turn)]


@dataclass(eq=False)
class _Change(Generic[Kept]):
    """Updates that are one change; a change with a later turn counts after it."""

    turn: int
    updates: list[Kept]


class _Order(Generic[Kept]):
    """The changes of a round, as its updates come one after the other."""

    def __init__(self) -> None:
        self.changes: list[_Change[Kept]] = []
        self._open: dict[Key, _Change[Kept]] = {}
        self._touched: dict[tuple[int, int], int] = {}  # by group and cell: the turn of the last change of it
        self._turns = 0

    def add(self, key: Key, kept: Kept) -> None:
        """One more update: a part of a change that there is, or one of its own."""
        update = kept.update
        cells = [(update.group, cell) for cell in update.cells]
        change = None if update.combination == "each" else self._open.get(key)
        if change is not None and update.combination == "sum" and any(self._touched[cell] > change.turn for cell in cells):
            change = None  # something else has changed the same cells since
        if change is not None and update.combination == "sum":
            change.updates.append(kept)
            return
        self._turns += 1
        if change is None:
            change = self._open[key] = _Change(self._turns, [kept])
            self.changes.append(change)
        else:
            change.turn = self._turns  # it counts where its last update does
            change.updates.append(kept)
        self._touched.update(dict.fromkeys(cells, self._turns))


def _averages_last(attempts: Iterable[Sequence[Kept]]) -> list[tuple[Key, Kept]]:
    """All updates with their keys; those that are averaged together stand where the last of them did."""
    found: list[tuple[Key, Kept]] = []
    averaged: dict[Key, list[tuple[Key, Kept]]] = {}
    for updates in attempts:
        counts: dict[tuple[int, Hashable], int] = {}
        for kept in updates:
            what = kept.update.group, kept.update.combined_by
            counts[what] = counts.get(what, -1) + 1
            key = (*what, counts[what])
            found.append((key, kept))
            if kept.update.combination == "mean":
                averaged.setdefault(key, []).append(found[-1])
    if not averaged or len(averaged) == len({key for key, _ in found}):
        return found
    last = {id(members[-1][1]) for members in averaged.values()}
    ordered: list[tuple[Key, Kept]] = []
    for key, kept in found:
        if kept.update.combination != "mean":
            ordered.append((key, kept))
        elif id(kept) in last:
            ordered += averaged[key]
    return ordered
