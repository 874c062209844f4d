"""The versions of all groups of a cluster: what the variables hold now, and which devices have it.

A group is a number here, the place of its state in each of the lists. Whoever reads a group gets a reference to its present version;
an update makes the next one. A death takes the copies of one task; the last one takes the version with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simdist.program.values import Bundle
from simdist.variables.state import Group, task_of

__all__ = ["GroupStates"]


class GroupStates:
    """As `GroupVersions`, for an engine.

    Args:
        parts: gives the arrays of a bundle.
        hold: is told of bytes that a device holds from now on: (place, name, bytes).

    Attributes:
        bundles: the present version of each group; None for those that are lost or forgotten.
        versions: how often each was changed.
        places: the devices that hold each.
        groups: which they are.
    """

    def __init__(self, parts: Callable[[Bundle], tuple[Any, ...]], hold: Callable[[str, str, int], None]) -> None:
        self.parts = parts
        self._hold = hold
        self.bundles: list[Bundle | None] = []
        self.versions: list[int] = []
        self.places: list[tuple[str, ...]] = []
        self.groups: list[Group] = []

    def add(self, group: Group, arrays: Sequence[Any]) -> int:
        self.bundles.append(Bundle.of(arrays))
        self.versions.append(0)
        self.places.append(group.cells[0].places)
        self.groups.append(group)
        return len(self.groups) - 1

    def join(self, group: Group, pieces: Sequence[tuple[int, int]]) -> int:
        """As `GroupVersions.join`.

        Raises:
            UnavailableError: the task that held one of them has died.
        """
        number = self.add(group, [self.parts(self.present(old))[position] for old, position in pieces])
        self.lie_at(number, self.places[pieces[0][0]])
        return number

    def present(self, number: int) -> Bundle:
        """The present version of a group.

        Raises:
            UnavailableError: the task that held it has died.
        """
        bundle = self.bundles[number]
        if bundle is None:
            raise self.groups[number].lost_error()
        return bundle

    def hold(self, place: str, name: str, size_bytes: int) -> None:
        self._hold(place, name, size_bytes)

    def forget(self, number: int) -> None:
        self.places[number], self.bundles[number] = (), None

    def places_of(self, number: int) -> tuple[str, ...]:
        return self.places[number]

    def lie_at(self, number: int, places: tuple[str, ...]) -> None:
        self.places[number] = places
        self.groups[number].lie_at(places)

    def lose(self, task: str) -> None:
        """A task has died, and its copies with it."""
        for number, places in enumerate(self.places):
            left = tuple([place for place in places if task_of(place) != task])
            if left and len(left) < len(places):
                self.lie_at(number, left)
            elif not left:
                self.forget(number)
