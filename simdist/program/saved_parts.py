"""What a library's object has to be saved: its variables, by their paths in it, and state that only it can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from simdist.program.arrays import Array

__all__ = ["OwnState", "SavedParts", "SavedScope", "SavedState", "built", "when_built"]

SavedState: TypeAlias = Any
"""State as plain data: numbers, text, lists and dicts, as JSON knows them."""


SavedScope: TypeAlias = Any
"""The strategy that owns variables; None of those that belong to none."""


@runtime_checkable
class OwnState(Protocol):
    """Arrays of an object that reads and writes them itself.

    Attributes:
        holder: the object.
    """

    holder: object

    def arrays(self) -> Mapping[str, Array]:
        """The arrays, by name."""
        ...

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take arrays over."""
        ...


@dataclass
class SavedParts:
    """What an object has to be saved.

    Attributes:
        variables: the library's variables by their paths in the object.
        custom: what the object reads and writes itself, likewise.
        unbuilt: objects in it whose variables do not exist yet.
        derived: functions that renew what an object has made of its variables, each with the object's path; called after a restore.
        strategy: that will own the variables that do not exist yet, where that is known.
    """

    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    custom: dict[str, OwnState] = field(default_factory=dict[str, OwnState])
    unbuilt: list[object] = field(default_factory=list[object])
    derived: dict[str, Callable[[], object]] = field(default_factory=dict[str, Callable[[], object]])
    strategy: SavedScope = None


WAITING = "_simdist_waiting"
"""The attribute of an object that has what waits for it: with the object it goes, and whatever knows the object."""


def when_built(holder: object, function: Callable[[], object]) -> None:
    """Call a function once, when the variables of an object exist that do not exist yet."""
    vars(holder).setdefault(WAITING, []).append(function)


def built(holder: object) -> None:
    """The variables of an object exist from now on."""
    for function in vars(holder).pop(WAITING, ()):
        function()
