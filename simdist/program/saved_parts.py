"""What a library's object has to be saved: its variables, by their paths in it, and state that only it can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from simdist.program.arrays import Array

__all__ = ["OwnState", "SavedParts", "SavedScope", "SavedState", "SlotOf", "built", "waiting_values", "when_built"]

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


class SlotOf(NamedTuple):
    """Whose slot a variable of an optimizer is.

    Attributes:
        number: of its variable among those that the optimizer was built for; -1 where it belongs to all of them.
        variable: the library's, or ours; None where it belongs to all.
        position: of the variable in the model that was compiled with the optimizer, such as ``layers/dense_1/vars/0``; "" without one.
    """

    number: int = -1
    variable: Any = None
    position: str = ""


@dataclass
class SavedParts:
    """What an object has to be saved.

    Attributes:
        variables: the library's variables by their paths in the object.
        custom: what the object reads and writes itself, likewise.
        unbuilt: objects in it whose variables do not exist yet.
        derived: functions that renew what an object has made of its variables, each with the object's path; called after a restore.
        strategy: that will own the variables that do not exist yet, where that is known.
        slots: of optimizers: whose each of their variables is, by its path.
        optional: paths of variables that may keep their values where a checkpoint has none for them.
    """

    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    custom: dict[str, OwnState] = field(default_factory=dict[str, OwnState])
    unbuilt: list[object] = field(default_factory=list[object])
    derived: dict[str, Callable[[], object]] = field(default_factory=dict[str, Callable[[], object]])
    strategy: SavedScope = None
    slots: dict[str, SlotOf] = field(default_factory=dict[str, SlotOf])
    optional: set[str] = field(default_factory=set[str])


WAITING = "_simdist_waiting"
"""The attribute of an object that has what waits for it: with the object it goes, and whatever knows the object."""


class Waiting(NamedTuple):
    """What waits for the variables of an object.

    Attributes:
        function: is called when they exist.
        values: gives the values that they will have, by their paths in the object.
    """

    function: Callable[[], object]
    values: Callable[[], Mapping[str, Array]]


def when_built(holder: object, function: Callable[[], object], values: Callable[[], Mapping[str, Array]]) -> None:
    """Call a function once, when the variables of an object exist that do not exist yet; `values` gives those that they will have."""
    vars(holder).setdefault(WAITING, []).append(Waiting(function, values))


def waiting_values(holder: object) -> dict[str, Array]:
    """The values that wait for the variables of an object, by their paths in it; of several for one path that which comes last."""
    waiting: list[Waiting] = vars(holder).get(WAITING, [])
    return {path: value for one in waiting for path, value in one.values().items()}


def built(holder: object) -> None:
    """The variables of an object exist from now on."""
    waiting: list[Waiting] = vars(holder).pop(WAITING, [])
    for one in waiting:
        one.function()
