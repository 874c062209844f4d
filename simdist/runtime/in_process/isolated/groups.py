"""The groups of variables as the driver knows them: who holds each. Their arrays are at the hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.in_process.computing import arrays_of
from simdist.runtime.in_process.isolated.arrays import jax_arrays
from simdist.runtime.in_process.isolated.post import Holders, Post
from simdist.runtime.wire.messages import ChangeGroup, Confirmed, FetchedGroups, FetchGroups, ForgetGroup, JoinGroups, PutGroup
from simdist.variables.reachability import DeadVariables
from simdist.variables.state import Group, task_of

__all__ = ["RemoteGroups"]


class RemoteGroups:
    """As `GroupVersions`. A group has a number: its index in each of the lists.

    Args:
        post: reaches the tasks.
        hold: is called with bytes that a device holds from now on: (device, name, bytes).
    """

    def __init__(self, post: Post, hold: Callable[[str, str, int], None]) -> None:
        self._post = post
        self._hold = hold
        self._groups: list[Group] = []
        self._devices: list[tuple[str, ...]] = []
        self._joined: dict[int, int] = {}  # a group that was joined with others, and the new one
        self._dead = DeadVariables()
        self.died, self.make_room = self._dead.add, self._dead.make_room

    # -- as GroupVersions

    def add(self, group: Group, arrays: Sequence[Any]) -> int:
        number = self._listed(group, group.cells[0].devices)
        for task in self.holders(number):
            self._post.ask(task, PutGroup(number, tuple(arrays)), Confirmed)
        return number

    def join(self, group: Group, pieces: Sequence[tuple[int, int]]) -> int:
        """As `GroupVersions.join`. The arrays go through the driver, because not every task that will hold the group holds all pieces."""
        olds = list(dict.fromkeys(old for old, _ in pieces))
        held = dict(zip(olds, self.read(olds), strict=True))
        new = {piece: position for position, piece in enumerate(pieces)}
        joined = tuple([(old, tuple([new[old, position] for position in range(len(held[old]))])) for old in olds])
        number = self._listed(group, self._devices[pieces[0][0]])
        self.lie_at(number, self._devices[number])
        for task in self.holders(number):
            self._post.ask(task, JoinGroups(number, tuple([held[old][position] for old, position in pieces]), joined), Confirmed)
        self._joined.update(dict.fromkeys(olds, number))
        return number

    def _listed(self, group: Group, devices: tuple[str, ...]) -> int:
        self._groups.append(group)
        self._devices.append(devices)
        return len(self._groups) - 1

    def forget(self, number: int) -> None:
        for task in _tasks(self._devices[number]):
            self._post.ask(task, ForgetGroup(number), Confirmed)
        self._devices[number] = ()

    def give_up_numbers(self) -> None:
        """The numbers are at the hosts, which keep them: they stand for machines of their own."""

    def devices_of(self, number: int) -> tuple[str, ...]:
        return self._devices[number]

    def lie_at(self, number: int, devices: tuple[str, ...]) -> None:
        before, after = _tasks(self._devices[number]), _tasks(devices)
        new = [task for task in after if task not in before]
        if new:
            (arrays,) = self.read([number])
            for task in new:
                self._post.ask(task, PutGroup(number, arrays), Confirmed)
        for task in before:
            if task not in after:
                self._post.ask(task, ForgetGroup(number), Confirmed)
        self._devices[number] = devices
        self._groups[number].lie_at(devices)

    def hold(self, device: str, name: str, size_bytes: int) -> None:
        self._hold(device, name, size_bytes)

    # -- for the engine

    def holders(self, number: int) -> tuple[str, ...]:
        """The tasks that hold a group, or the one that it was joined into.

        Raises:
            UnavailableError: nobody does.
        """
        devices = self._devices[number]
        if not devices and number in self._joined:
            return self.holders(self._joined[number])
        if not devices:
            raise self._groups[number].lost_error()
        return _tasks(devices)

    def holders_of(self, groups: Iterable[int]) -> Holders:
        """The same of several groups, with their numbers."""
        return tuple([(group, self.holders(group)) for group in groups])

    def read(self, groups: Sequence[int]) -> list[tuple[Any, ...]]:
        """The arrays of groups, asked for once each task."""
        by_task: dict[str, list[int]] = {}
        for group in dict.fromkeys(groups):
            by_task.setdefault(self.holders(group)[0], []).append(group)
        found: dict[int, tuple[Any, ...]] = {}
        for task, numbers in by_task.items():
            reply = self._post.ask(task, FetchGroups(tuple(numbers)), FetchedGroups)
            found.update(zip(numbers, map(jax_arrays, reply.groups), strict=True))
        return [found[group] for group in groups]

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, at each task that holds it."""
        for task in self.holders(group):
            self._post.ask(task, ChangeGroup(group, self._post.kernel(task, kernel), arrays_of(given), where), Confirmed)


def _tasks(devices: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(task_of, devices)))
