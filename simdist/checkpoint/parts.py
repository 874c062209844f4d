"""The parts of what is saved: each is read into arrays or plain data, and written back.

A variable with replica-local values (state of layers, metrics) is saved twice: its combined value, by its path, and the values of all
replicas, below ``replica_values``. With as many replicas each gets its own back, and with others all get the combined one.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import jax.numpy as jnp
import numpy as np

from simdist.checkpoint.paths import original_name, replace_parts
from simdist.checkpoint.plain_state import plain
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, HostArray
from simdist.program.half_precision import widened
from simdist.program.saved_parts import OwnState, SavedState
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.variable import Variable

__all__ = [
    "KEPT",
    "REPLICA_VALUES",
    "ArrayPart",
    "CompanionPart",
    "Contents",
    "OwnPart",
    "Part",
    "PlainVariablePart",
    "StatePart",
    "Stateful",
    "VariablePart",
    "slot_in",
]

REPLICA_VALUES = "replica_values"
KEPT = "simdist/kept"
"""Below this path is what strategies keep from step to step."""
KERAS_SLOTS = (
    *("momentum", "velocity", "velocity_hat", "average", "average_gradient", "norm", "linear"),
    *("accumulator", "accumulated_grad", "accumulated_delta_var", "gradient_accumulator"),
)
"""How Keras' optimizers call what they keep for each variable."""


@runtime_checkable
class Stateful(Protocol):
    """What has a state as plain data: iterators, counters."""

    def state_dict(self) -> SavedState:
        """The state: numbers, text, lists and dicts."""
        ...

    def load_state_dict(self, state: SavedState, /) -> object:
        """Go to a saved state."""
        ...


@dataclass
class Contents:
    """What a checkpoint holds, in memory.

    Attributes:
        arrays: by path.
        names: what their owners call them.
        states: plain data by path.
        replicas: of arrays with replica-local values: how many, by path.
        rules: which variables each rule of an Optax optimizer has, by the path of the optimizer.
        slots: whose the variables of Keras optimizers are, by path (`simdist.checkpoint.slot_labels`).
    """

    arrays: dict[str, HostArray] = field(default_factory=dict[str, HostArray])
    names: dict[str, str] = field(default_factory=dict[str, str])
    states: dict[str, SavedState] = field(default_factory=dict[str, SavedState])
    replicas: dict[str, int] = field(default_factory=dict[str, int])
    rules: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    slots: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


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
class VariablePart:
    """A variable of a strategy."""

    path: str
    variable: Variable

    @property
    def identity(self) -> int:
        return id(self.variable.placement.cells[0])

    @property
    def _is_local(self) -> bool:
        return self.variable.placement.spread == "replicas"

    def local(self) -> HostArray | None:
        variable = self.variable
        return np.stack(variable.placement.store.local_values(variable)) if self._is_local else None

    def save(self, contents: Contents, others: Sequence[Mapping[str, HostArray]]) -> None:
        contents.names[self.path] = self.variable.name
        if not self._is_local:
            contents.arrays[self.path] = np.asarray(self.variable.placement.store.observe(self.variable))
            return
        local = self.local()
        assert local is not None
        values = np.concatenate([other[self.path] for other in others]) if others else local
        contents.arrays[f"{REPLICA_VALUES}/{self.path}"] = values
        contents.replicas[self.path] = len(values)
        contents.arrays[self.path] = np.asarray(_combined(values, self.variable.placement.combine))

    def check(self, path: str, contents: Contents) -> bool:
        found = contents.arrays.get(path)
        if found is None:
            return False
        require_fit(self.path, found, self.variable.shape, self.variable.dtype)
        require_same_slot(self.path, contents.names.get(path, ""), self.variable.name)
        placement, many = self.variable.placement, contents.replicas.get(path, 1)
        own = self.variable.synchronization is VariableSynchronization.ON_READ and self.variable.aggregation is VariableAggregation.NONE
        is_other = self._values(path, contents) is None if self._is_local else own and many > 1
        if is_other and (own or placement.combine in ("none", "worker")):
            raise InvalidArgumentError(
                f"{self.path} has a value of its own on each of {self._everywhere} replicas, and the checkpoint has those of "
                f"{many}, which cannot be combined. Restore it into as many, or leave the variable out."
            )
        return True

    def restore(self, path: str, contents: Contents, worker: int) -> None:
        store = self.variable.placement.store
        here = len(self.variable.placement.cells)
        values = self._values(path, contents) if self._is_local else None
        if values is not None:
            first = worker * here if self._everywhere > here else 0
            store.assign_local(self.variable, list(values[first : first + here]))
        elif self._is_local and self.variable.placement.combine != "sum":
            store.assign_local(self.variable, [contents.arrays[path]] * here)
        else:
            store.update("assign", [self.variable], [contents.arrays[path]])

    @property
    def _everywhere(self) -> int:
        """The number of copies in all programs together."""
        strategy, here = self.variable.placement.store.strategy, len(self.variable.placement.cells)
        return here if strategy is None else max(strategy.num_replicas_in_sync, here)

    def _values(self, path: str, contents: Contents) -> HostArray | None:
        """The values of as many replicas as there are; None where the checkpoint has them not."""
        values = contents.arrays.get(f"{REPLICA_VALUES}/{path}")
        fits = values is not None and values.shape == (self._everywhere, *self.variable.shape)
        return values if fits else None


@dataclass
class CompanionPart(VariablePart):
    """A companion of a variable. What does not fit it is no error: then it begins anew.

    Attributes:
        main: the path of the variable.
    """

    main: str

    def check(self, path: str, contents: Contents) -> bool:
        found, variable = contents.arrays.get(path), self.variable
        if found is None or (tuple(found.shape), str(found.dtype)) != (variable.shape, variable.dtype):
            return False
        return not self._is_local or self._values(path, contents) is not None

    def begin(self) -> None:
        """Let it begin anew."""
        assert self.variable.beginning is not None
        value, store = np.asarray(self.variable.beginning()), self.variable.placement.store
        if self._is_local:
            store.assign_local(self.variable, [value] * len(self.variable.placement.cells))
        else:
            store.update("assign", [self.variable], [value])


@dataclass
class PlainVariablePart:
    """A variable of Keras that belongs to no strategy."""

    path: str
    variable: KerasVariable

    @property
    def identity(self) -> int:
        return id(self.variable)

    def local(self) -> None:
        return None

    def save(self, contents: Contents, others: Sequence[Mapping[str, HostArray]]) -> None:
        contents.names[self.path] = self.variable.path
        contents.arrays[self.path] = np.asarray(self.variable.value)

    def check(self, path: str, contents: Contents) -> bool:
        found = contents.arrays.get(path)
        if found is None:
            return False
        require_fit(self.path, found, tuple(self.variable.shape), self.variable.dtype)
        require_same_slot(self.path, contents.names.get(path, ""), self.variable.path)
        return True

    def restore(self, path: str, contents: Contents, worker: int) -> None:
        self.variable.assign(jnp.asarray(contents.arrays[path]))


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


def require_fit(path: str, found: Array, shape: tuple[int, ...], dtype: str) -> None:
    """Refuse an array of another shape or dtype than the variable that is to have it.

    Raises:
        InvalidArgumentError: it is one.
    """
    if tuple(found.shape) != tuple(shape):
        raise InvalidArgumentError(
            f"{path} has shape {tuple(shape)}, and the checkpoint has one of shape {tuple(found.shape)}: it is of another "
            "model. Make the model as it was when it was saved, or restore another checkpoint."
        )
    if str(found.dtype) != str(dtype):
        raise InvalidArgumentError(
            f"{path} has dtype {dtype}, and the checkpoint has one of {found.dtype}. Make the variable with "
            f"dtype={str(found.dtype)!r}, restore it, and assign it to yours."
        )


def require_same_slot(path: str, found: str, name: str) -> None:
    """Refuse the slot of an optimizer of another kind.

    Args:
        path: of the variable in the checkpoint.
        found: what the variable was called that was saved.
        name: what the one is called that is to have its value.

    Raises:
        InvalidArgumentError: it is one.
    """
    saved, own = slot_in(found), slot_in(name)
    if saved != own and saved and own:
        raise InvalidArgumentError(
            f"{path} is the {own!r} of an optimizer, and the checkpoint has a {saved!r} ({found}): it is of an optimizer of another kind. "
            "Make the optimizer as it was when it was saved, or leave it out."
        )


def slot_in(name: str) -> str:
    """Which slot a variable of a Keras optimizer is, by its name: ``adam/dense_kernel_velocity``; empty where it is none."""
    return max([slot for slot in KERAS_SLOTS if name.endswith(f"_{slot}")], key=len, default="")


def _combined(values: HostArray, combine: str) -> HostArray:
    """What all replicas' values are when they are read."""
    if combine == "sum":
        return values.sum(axis=0, dtype=values.dtype)
    if combine == "mean":
        wide = widened(values)
        return (wide.sum(axis=0, dtype=wide.dtype) / len(values)).astype(values.dtype)
    return values[0]
