"""The parts of what is saved: each is read into arrays or plain data, and written back.

Here is what all of them do, and those of objects that give and take their state themselves; those of variables are in `variable_parts`.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from simdist.checkpoint.contents import Contents
from simdist.checkpoint.fitting import require_fit
from simdist.checkpoint.paths import original_name, replace_parts
from simdist.checkpoint.plain_state import plain
from simdist.program.arrays import Array, HostArray
from simdist.program.saved_parts import OwnState, SavedState

__all__ = ["ArrayPart", "OwnPart", "Part", "StatePart", "Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """What has a state as plain data: iterators, counters."""

    def state_dict(self) -> SavedState:
        """The state: numbers, text, lists and dicts."""
        ...

    def load_state_dict(self, state: SavedState, /) -> object:
        """Go to a saved state."""
        ...


class ArrayPart(Protocol):
    """One thing that is saved as arrays.

    Attributes:
        path: in the checkpoint.
        identity: what it saves; two parts of one thing are saved once.
    """

    path: str

    @property
    def identity(self) -> int: ...

    def save(self, contents: Contents, others: Sequence[Mapping[str, HostArray]]) -> None:
        """Add it to the contents.

        Args:
            contents: are added to.
            others: of each main, in the order of the workers, its replica-local values by path; empty where one program drives all.
        """
        ...

    def local(self) -> HostArray | None:
        """The replica-local values (r, ...) that this program has; None where there are none."""
        ...

    def check(self, path: str, contents: Contents) -> bool:
        """Whether the contents have it, by this path; refuses what does not fit.

        Raises:
            InvalidArgumentError: another shape or dtype, or values of so many replicas that they fit no other number.
        """
        ...

    def restore(self, path: str, contents: Contents, worker: int) -> None:
        """Take it over from the contents, which have it."""
        ...


Part: TypeAlias = "ArrayPart | StatePart"
"""One thing that is saved. Two parts with the same `identity` are saved once."""


@dataclass
class OwnPart:
    """What an object reads and writes itself."""

    path: str
    state: OwnState
    holder: object

    @property
    def identity(self) -> int:
        return id(self.holder)

    def local(self) -> None:
        return None

    def save(self, contents: Contents, others: Sequence[Mapping[str, HostArray]]) -> None:
        for name, array in self.state.arrays().items():
            path = f"{self.path}/{replace_parts(name)}"
            contents.arrays[path], contents.names[path] = np.asarray(array), name

    def check(self, path: str, contents: Contents) -> bool:
        found = self._found(path, contents)
        for name, array in self.state.arrays().items():
            if name in found:
                require_fit(f"{self.path}/{name}", found[name], tuple(array.shape), str(array.dtype))
        return bool(found)

    def restore(self, path: str, contents: Contents, worker: int) -> None:
        self.state.restore(self._found(path, contents))

    def _found(self, path: str, contents: Contents) -> dict[str, Array]:
        below = f"{path}/"
        return {original_name(name.removeprefix(below)): array for name, array in contents.arrays.items() if name.startswith(below)}


@dataclass
class StatePart:
    """An object whose state is plain data."""

    path: str
    holder: Stateful

    @property
    def identity(self) -> int:
        return id(self.holder)

    def check(self, path: str, contents: Contents) -> bool:
        return path in contents.states

    def state(self) -> SavedState:
        """The state of this program's object.

        Raises:
            InvalidArgumentError: it is not plain data.
        """
        return plain(self.holder.state_dict(), self.path)
