"""Variables as parts of a checkpoint: those of strategies, what is kept beside them, and those of Keras alone.

A variable with replica-local values (state of layers, metrics) is saved twice: its combined value, by its path, and the values of all
replicas, below ``replica_values``. With as many replicas each gets its own back, and with others all get the combined one.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from simdist.checkpoint.contents import REPLICA_VALUES, Contents
from simdist.checkpoint.fitting import require_fit, require_same_slot
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import HostArray
from simdist.program.half_precision import widened
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.variable import Variable

__all__ = ["CompanionPart", "PlainVariablePart", "VariablePart"]


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


def _combined(values: HostArray, combine: str) -> HostArray:
    """What all replicas' values are when they are read."""
    if combine == "sum":
        return values.sum(axis=0, dtype=values.dtype)
    if combine == "mean":
        wide = widened(values)
        return (wide.sum(axis=0, dtype=wide.dtype) / len(values)).astype(values.dtype)
    return values[0]
