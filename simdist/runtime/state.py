"""The versions of all groups of a cluster: the values of the variables, and the devices that hold them.

A group is a number here, the index of its state in each of the lists. A read of a group gets a reference to its present version;
an update makes the next one. A crash loses the copies of one task; with the last copy the version is lost.

Groups may be joined while steps run that were linked before: their reads of an old group are taken out of the new one, and their
updates are put back into it. They go on with the numbers of the old group, so that what they have read and what they make can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax

from simdist.program.arrays import Array, Arrays
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Bundle, BundleType, blanks
from simdist.variables.reachability import DeadVariables
from simdist.variables.state import Group, task_of

__all__ = ["GroupStates"]


class Joined(NamedTuple):
    """Where the cells of a group are that was joined with others.

    Attributes:
        group: the new one.
        positions: of the cells in it.
        changes: how often the old group had been changed; the new one is counted from 0.
    """

    group: int
    positions: list[int]
    changes: int


class GroupStates:
    """As `GroupVersions`, for an engine.

    Args:
        parts: gives the arrays of a bundle.
        call: calls a kernel of bundles that makes one bundle of this type.
        hold: is called with the bytes that a device holds from now on: (device, name, bytes).
        changed: is called with a task whose groups have been joined.

    Attributes:
        bundles: the present version of each group; None for those that are lost or forgotten.
        versions: how often each was changed.
        devices: the devices that hold each.
        groups: which they are.
        joined: where the cells of a group are that was joined with others.
    """

    def __init__(
        self,
        parts: Callable[[Bundle], Arrays],
        call: Callable[[Kernel, Sequence[Bundle], BundleType], Bundle],
        hold: Callable[[str, str, int], None],
        changed: Callable[[str], None] = lambda task: None,
    ) -> None:
        self.parts = parts
        self.call = call
        self._hold = hold
        self._changed = changed
        self.bundles: list[Bundle | None] = []
        self.versions: list[int] = []
        self.devices: list[tuple[str, ...]] = []
        self._holders: list[frozenset[str]] = []  # the same devices; a step asks each replica's, however many there are
        self.groups: list[Group] = []
        self.joined: dict[int, Joined] = {}
        self._dead = DeadVariables()
        self.died, self.make_room = self._dead.add, self._dead.make_room

    def add(self, group: Group, arrays: Sequence[Array]) -> int:
        self.bundles.append(Bundle.of(arrays))
        self.versions.append(0)
        self.devices.append(group.cells[0].devices)
        self._holders.append(_set_of(group.cells[0].devices))
        self.groups.append(group)
        return len(self.groups) - 1

    def join(self, group: Group, pieces: Sequence[tuple[int, int]]) -> int:
        """As `GroupVersions.join`.

        Raises:
            UnavailableError: the task that held one of them has died.
        """
        number = self.add(group, [self.parts(self.present(old))[position] for old, position in pieces])
        self.lie_at(number, self.devices[pieces[0][0]])
        new_position = {piece: position for position, piece in enumerate(pieces)}
        for old in {old for old, _ in pieces}:
            positions = [new_position[old, position] for position in range(len(self.bundles[old].avals))]  # pyright: ignore[reportOptionalMemberAccess]
            self.joined[old] = Joined(number, positions, self.versions[old])
        self._changed(group.task)
        return number

    def joint(self, number: int) -> int:
        """The group that has the cells of this one now: itself, where it was not joined."""
        return self.joint(self.joined[number].group) if number in self.joined else number

    def present(self, number: int) -> Bundle:
        """The present version of a group.

        Raises:
            UnavailableError: the task that held it has died.
        """
        bundle = self.bundles[number]
        if bundle is None and number in self.joined:
            return self._taken_out(number)
        if bundle is None:
            raise self.groups[number].lost_error()
        return bundle

    def version(self, number: int) -> int:
        """The number of changes of a group; of one that was joined, before and after that."""
        joined = self.joined.get(number)
        return self.versions[number] if joined is None else joined.changes + self.version(joined.group)

    def put(self, number: int, bundle: Bundle) -> int:
        """Make this the present version of a group; return its number."""
        if number in self.joined:
            return self._put_back(number, bundle)
        self.bundles[number] = bundle
        self.versions[number] = version = self.versions[number] + 1
        return version

    def _taken_out(self, old: int) -> Bundle:
        """The part of a joined group that was a group of its own."""
        number, positions, _ = self.joined[old]
        whole = self.present(number)
        kernel = kernel_of("part of a group", lambda *arrays: [arrays[position] for position in positions], whole.avals)
        return self.call(kernel, [whole], kernel.out_avals)

    def _put_back(self, old: int, part: Bundle) -> int:
        number, positions, before = self.joined[old]
        whole = self.present(number)

        def merge(*arrays: jax.Array) -> list[jax.Array]:
            state = list(arrays[: len(whole.avals)])
            for position, array in zip(positions, arrays[len(whole.avals) :], strict=True):
                state[position] = array
            return state

        kernel = kernel_of("part of a group changed", merge, [*whole.avals, *part.avals])
        return before + self.put(number, self.call(kernel, [whole, part], whole.avals))

    def hold(self, device: str, name: str, size_bytes: int) -> None:
        self._hold(device, name, size_bytes)

    def forget(self, number: int) -> None:
        self.devices[number], self._holders[number], self.bundles[number] = (), frozenset(), None

    def give_up_numbers(self) -> None:
        self._dead.give_up_numbers(self._give_up)

    def _give_up(self, number: int) -> None:
        bundle = self.bundles[number]
        if bundle is not None:
            self.bundles[number] = Bundle.of(blanks(bundle.avals))

    def devices_of(self, number: int) -> tuple[str, ...]:
        return self.devices[number]

    def is_on(self, number: int, device: str) -> bool:
        """Whether this device holds a group."""
        return device in self._holders[number]

    def lie_at(self, number: int, devices: tuple[str, ...]) -> None:
        self.devices[number], self._holders[number] = devices, _set_of(devices)
        self.groups[number].lie_at(devices)

    def lose(self, task: str) -> None:
        """Drop the copies of a task that has died."""
        for number, devices in enumerate(self.devices):
            left = tuple([device for device in devices if task_of(device) != task])
            if left and len(left) < len(devices):
                self.lie_at(number, left)
            elif not left:
                self.forget(number)


@lru_cache(maxsize=64)
def _set_of(devices: tuple[str, ...]) -> frozenset[str]:
    return frozenset(devices)  # groups on the same devices share one
