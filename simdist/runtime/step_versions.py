"""The versions that one step of several replicas makes of variables: they count when the step is over for all, or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from operator import call
from typing import Protocol, TypeVar

from simdist.program.values import Bundle

__all__ = ["PresentVersions", "StepVersions"]

Value = TypeVar("Value")


class ByNumber(Protocol[Value]):
    """A list or a dict, by the numbers of groups."""

    def __getitem__(self, group: int, /) -> Value: ...
    def __setitem__(self, group: int, value: Value, /) -> None: ...


class PresentVersions(Protocol):
    """The versions that count: `bundles`, and in `versions` how often each group was changed."""

    @property
    def bundles(self) -> ByNumber[Bundle | None]: ...
    @property
    def versions(self) -> ByNumber[int]: ...

    def present(self, number: int, /) -> Bundle:
        """The present version of a group."""
        ...


class StepVersions:
    """The versions that a step makes of each group, one after the other, until they count.

    Args:
        states: what counts.
    """

    def __init__(self, states: PresentVersions) -> None:
        self.states = states
        self.made: dict[int, list[Bundle]] = {}

    def after(self, group: int, updates: int) -> Bundle:
        """The version after so many updates of this step."""
        return self.states.present(group) if updates == 0 else self.made[group][updates - 1]

    def known(self, group: int, updates: int) -> bool:
        """Whether another replica, whose copy is the same, has made so many updates already."""
        return group in self.made and len(self.made[group]) >= updates

    def add(self, group: int, version: Bundle) -> None:
        self.made.setdefault(group, []).append(version)

    def commit(self) -> None:
        """The step is over: its last versions become the present ones, all of them or, where Ctrl-C comes first, none."""
        changes: list[Callable[[], None]] = []
        bundles, versions = self.states.bundles, self.states.versions
        for group, made in self.made.items():
            changes.append(partial(bundles.__setitem__, group, made[-1]))
            changes.append(partial(versions.__setitem__, group, versions[group] + len(made)))
        # One call into C, so that no handler of a signal, which may raise, runs in between.
        deque(map(call, changes), maxlen=0)
