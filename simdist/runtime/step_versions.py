"""The versions of variables that one step of several replicas makes: all of them become valid at its end, or none."""

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
    """The versions that a step makes of each group, in order, before they are valid.

    Args:
        states: what counts.
    """

    def __init__(self, states: PresentVersions) -> None:
        self.states = states
        self.new_versions: dict[int, list[Bundle]] = {}

    def after(self, group: int, updates: int) -> Bundle:
        """The version after so many updates of this step."""
        return self.states.present(group) if updates == 0 else self.new_versions[group][updates - 1]

    def known(self, group: int, updates: int) -> bool:
        """Whether another replica with the same copy has made this version already."""
        return group in self.new_versions and len(self.new_versions[group]) >= updates

    def add(self, group: int, version: Bundle) -> None:
        self.new_versions.setdefault(group, []).append(version)

    def commit(self) -> None:
        """Make the last versions of the step the present ones: all of them or, where Ctrl-C comes first, none."""
        changes: list[Callable[[], None]] = []
        bundles, versions = self.states.bundles, self.states.versions
        for group, new_versions in self.new_versions.items():
            changes.append(partial(bundles.__setitem__, group, new_versions[-1]))
            changes.append(partial(versions.__setitem__, group, versions[group] + len(new_versions)))
        # One call into C, so that no handler of a signal, which may raise, runs in between.
        deque(map(call, changes), maxlen=0)
        self.new_versions = {}
