"""Playback: the Python of a step runs again, with values in the place of placeholders.

What a step reads, takes and draws before its first kernel is given to it; what it assigns, checks, gives to collectives and returns is
kept, as the operands of the operations that the trace has found. So a print, a debugger, a condition or an error of the user's code has
the values of this step. What comes after a collective, or after an optimizer's update, happens later and elsewhere: its values are
not there (`LaterValue`), and code that computes with one gets an error that says so.

Invariant: a playback changes nothing but its own record; the operations of the program carry out what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never, cast

import jax
import jax.core
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike, HostArray, Tree
from simdist.program.captures import captures
from simdist.program.collective import CollectiveOptions
from simdist.program.markers import ArgumentMarker, CheckMarker, KeyMarker, Marker, ReadMarker, UpdateMarker
from simdist.program.operations import Reference, Rule, VariableHandle
from simdist.program.scope import guarded
from simdist.program.tracing import Tracer, tracing_with
from simdist.program.values import Aval

__all__ = ["LaterValue", "Playback", "Source", "other_course"]

Source = tuple[str, object, int]
"""Where an array comes from: a batch (iterator, which), the arguments, a variable or a key; and which leaf of it."""


class LaterValue:
    """A value that is not there yet while the Python of a step runs: of a variable after an update, or after a collective.

    Args:
        what: it is, for the error.
    """

    def __init__(self, what: str, aval: Aval) -> None:
        self.what = what
        self.shape = aval.shape
        self.dtype = jnp.dtype(aval.dtype)
        self.ndim = len(aval.shape)

    def _refuse(self) -> Never:
        raise FailedPreconditionError(
            f"run_eagerly=True: {self.what} is not there while the Python code of the step runs: the update takes place after it. "
            "Return it as it is; read it in a callback after the batch, or in the next step. A compiled step may compute with it."
        )

    def __jax_array__(self) -> jax.Array:
        self._refuse()

    def __array__(self, dtype: object = None, copy: bool | None = None) -> HostArray:
        self._refuse()

    def __float__(self) -> float:
        self._refuse()

    def __int__(self) -> int:
        self._refuse()

    def __bool__(self) -> bool:
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self.what}: {self.dtype}{list(self.shape)}, not there yet>"


class Playback(Tracer):
    """One run of the Python of a step, with values.

    Args:
        traced: the tracer of the step, after its trace.
        values: what the step has been given, by source.

    Attributes:
        updates: the operands of each assignment, update and check, in order.
        combined: the operands of each collective, in order.
    """

    has_values = True

    def __init__(self, traced: Tracer, values: dict[Source, jax.Array]) -> None:
        super().__init__(None, traced.replica_rank, traced.num_replicas, traced.known_operands, traced.options)
        self.shared, self.created_variables, self.joint_sizes = traced.shared, traced.created_variables, traced.joint_sizes
        self.part_rows, self.structures, self.is_uneven = traced.part_rows, traced.structures, traced.is_uneven
        self.updates: list[list[jax.Array]] = []
        self.combined: list[list[jax.Array]] = []
        self._values = values
        self._changed: dict[Reference, _Change] = {}
        self._is_updating = self._is_combined = False

    def play(self, step: Callable[[], Sequence[Array]]) -> list[Array]:
        """Run `step`, which returns a flat list of arrays."""
        with tracing_with(self), guarded(), captures.step():
            return list(step())

    # -- what steps do --------------------------------------------------------------------------------------------

    def next_batch(self, iterator: int) -> Tree:
        captures.taken(self.outermost)
        number = self.taken.get(iterator, 0)
        self.taken[iterator] = number + 1
        structure = self.structures.get((iterator, number))
        if structure is None:
            raise other_course(f"takes {number + 1} batches")
        leaves = [self._values["batch", (iterator, number), leaf] for leaf in range(structure.num_leaves)]
        return jax.tree_util.tree_unflatten(structure, leaves)

    def mark(self, marker: Marker, operands: Sequence[jax.Array], outputs: Sequence[Aval]) -> list[jax.Array]:
        """As `Tracer.mark`: gives the values of what is read, and keeps what is written."""
        match marker:
            case ArgumentMarker():
                return [self._values["argument", None, leaf] for leaf in range(len(outputs))]
            case KeyMarker():
                return [self._values["key", marker.salt, 0]]
            case ReadMarker():
                return [self._present(marker.variable)]
            case UpdateMarker():
                self.updates.append(_concrete(operands))
                self._change(marker, operands)
            case CheckMarker():
                self.updates.append(_concrete(operands))
            case _:
                raise AssertionError(f"a step that is played back has no {marker.kind}")
        return []

    def update(self, rule: Rule, variables: Sequence[VariableHandle], operands: Sequence[jax.Array]) -> None:
        """As `Tracer.update`."""
        self._is_updating, self._is_combined = not self.overlays, False
        try:
            super().update(rule, variables, operands)
        finally:
            self._is_updating = False

    def foresee(self, variables: Sequence[VariableHandle], values: Sequence[jax.Array]) -> None:
        """As `Tracer.foresee`."""
        for variable, value in zip(variables, values, strict=True):
            self._changed[variable.ref()] = _Change("assign", value)

    def _present(self, variable: VariableHandle) -> jax.Array:
        own = variable.ref()
        change = self._changed.get(own)
        if change is not None:
            return change.value(variable, lambda: self._before(variable))
        return self._before(variable)

    def _before(self, variable: VariableHandle) -> jax.Array:
        """The value that the step has read; or, where the program does not ask for it because nothing depends on it, the present one."""
        source = ("variable", variable.ref(), 0)
        if source not in self._values:
            self._values[source] = jnp.asarray(variable.unseen_value())
        return self._values[source]

    def _change(self, marker: UpdateMarker, operands: Sequence[jax.Array]) -> None:
        is_known = isinstance(marker.rule, str) and not self._is_combined
        for variable, operand in zip(marker.variables, operands, strict=True):
            before = self._changed.get(variable.ref())
            self._changed[variable.ref()] = _Change(marker.rule, operand, before) if is_known else _Change()
            self._changed.update((handle.ref(), _Change()) for handle in variable.overlapping())

    def collective(
        self,
        kind: str,
        values: Sequence[ArrayLike],
        options: CollectiveOptions | None = None,
        label: str = "",
        averaged: bool = False,
        is_for_update: bool = False,
    ) -> Any:
        """As `Tracer.collective`; what stands for the results is never seen by code of the user."""
        arrays = [jnp.asarray(value) for value in values]
        if not arrays or self.num_replicas == 1:
            return [arrays] * self.num_replicas if kind == "all_gather" else arrays
        if kind == "all_gather" or self.overlays or not (self._is_updating or label == "gradients"):
            raise FailedPreconditionError(
                f"run_eagerly=True: the step needs values of the other replicas ({kind}{f' of {label}' if label else ''}) before its "
                "Python code can go on. Synchronized batch normalization, losses with masks and collectives of your own work without "
                "run_eagerly, or with one replica."
            )
        self._is_combined = True
        self.combined.append(_concrete(arrays))
        return [jnp.ones_like(array) for array in arrays]

    def sparse_sum(self, gradient: jax.Array, table: int) -> jax.Array:
        """As `Tracer.sparse_sum`; the operand that is kept is the dense gradient."""
        self._is_combined = True
        self.combined.append(_concrete([gradient]))
        return jnp.ones_like(gradient)


class _Change:
    """What a step has done to a variable: an assignment or an increment on top of an earlier change, or what nobody can tell yet."""

    def __init__(self, rule: Rule | None = None, operand: jax.Array | None = None, before: _Change | None = None) -> None:
        self.rule = rule
        self.operand = operand
        self.before = before

    def value(self, variable: VariableHandle, first: Callable[[], jax.Array]) -> jax.Array:
        """The value after it; `first` gives the one before all changes."""
        if self.operand is None:
            # Whatever computes with it raises.
            return cast(jax.Array, LaterValue(f"the value of {variable.name!r} after the update", variable.aval))
        if self.rule == "assign":
            return self.operand
        return self.operand + (first() if self.before is None else self.before.value(variable, first))


def _concrete(operands: Sequence[jax.Array]) -> list[jax.Array]:
    if any(isinstance(operand, jax.core.Tracer) for operand in operands):
        raise InvalidArgumentError(
            "An assignment of a step was given a value that exists only inside a jax.grad, scan, cond or vmap. Return the value from that "
            "function and use it in the step itself."
        )
    return list(operands)


def other_course(what: str) -> FailedPreconditionError:
    """The error of a step that does something else than it did when it was traced."""
    return FailedPreconditionError(
        f"run_eagerly=True: with the values of this step, its Python code {what}, which it did not do when the step was traced. Values may "
        "decide what is computed, but not which variables are changed, or how often. Use keras.ops.where, or assign the present value."
    )
