"""The slots of a Keras optimizer, as its user sees them: variables that are colocated with those that it changes.

The optimizer that a user holds takes no steps itself; its slot optimizers do (`simdist.variables.slot_optimizer`). But its learning rate,
its count of steps and its slots are bound to the cells of the slot optimizers, so that what the user reads, assigns, saves and loads is
what training uses, wherever and whenever the optimizer was made. If it was built, or loaded, before, training goes on from what it holds.

Invariant: a variable of the optimizer is bound when every cell of its trained variable has a slot optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.interrupts import delayed_interrupts
from simdist.program.arrays import Array
from simdist.program.scope import libraries
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.handles import adopted
from simdist.variables.keras_copies import UNUSED_RATE, Role, apart, built_roles, copy_for, stand_in_for
from simdist.variables.keras_objects import KerasOptimizer, KerasVariable
from simdist.variables.layout import Layout
from simdist.variables.placement import Placement
from simdist.variables.slot_optimizer import SlotOptimizer
from simdist.variables.state import Cell, Owner, owner_of
from simdist.variables.variable import Variable

__all__ = ["OptimizerSlots", "copies_of", "require_one_value", "unplaced", "whole_of"]


class OptimizerSlots:
    """Binds the variables of one Keras optimizer.

    Args:
        optimizer: the user's; it is built here if it is not yet.
        variables: that it changes, in the order in which it was built.

    Raises:
        FailedPreconditionError: Keras variables cannot be bound, as `simdist.keras` is not loaded.
    """

    def __init__(self, optimizer: KerasOptimizer, variables: Sequence[Variable]) -> None:
        if not libraries:
            raise FailedPreconditionError(
                f"A Keras optimizer ({type(optimizer).__name__}) needs simdist's Keras. Write `from simdist import keras` first."
            )
        self.variables = list(variables)
        was_built = optimizer.built
        # Keras takes an optimizer for built before it has all of its variables.
        with jax.ensure_compile_time_eval(), delayed_interrupts():
            roles = apart(lambda: self._roles(optimizer))
        self.holders = list(zip(roles, optimizer.variables, strict=True))
        kept = [(role, v) for role, v in self.holders if was_built and role.kind in ("slot", "shared")]
        found = [(role, _value_of(variable)) for role, variable in kept]
        self.first_values = {role: np.array(value) for role, value in found if value is not None}

    def _roles(self, optimizer: KerasOptimizer) -> list[Role]:
        if optimizer.built:
            _, roles = copy_for(optimizer, [(v, Cell(v.name, v.aval, "")) for v in self.variables])
            # The copy of an optimizer with a schedule has a learning rate of its own, which the user's has not.
            roles = roles if len(roles) == len(optimizer.variables) else [role for role in roles if role != UNUSED_RATE]
            if len(roles) != len(optimizer.variables):
                raise InvalidArgumentError(
                    f"{type(optimizer).__name__} was built with {len(optimizer.variables)} variables of its own, where {len(roles)} were "
                    "expected for the variables that it changes. Make a new optimizer."
                )
            return roles
        trained = [variable.keras_variable for variable in self.variables]
        pairs = zip(trained, self.variables, strict=True)
        return built_roles(optimizer, [stand_in_for(own) if known is None else known for known, own in pairs])

    def first_value(self, role: Role, cells: Sequence[tuple[int, Cell]]) -> Array | None:
        """The value that the user's optimizer had for a variable of a slot optimizer; None if it had none, or no numbers are computed.

        Args:
            role: whose owner is a number among the cells.
            cells: those that are optimized, with the numbers of their variables.
        """
        if role.kind in ("iteration", "learning_rate", "unused"):
            return next((_value_of(variable) for known, variable in self.holders if known == role), None)
        if role.kind != "slot":
            return self.first_values.get(role)
        number, cell = cells[role.owner]
        whole = self.first_values.get(Role(role.kind, number, role.number))
        return whole if whole is None else self.variables[number].placement.part_of(cell, np.asarray(whole))

    def bind(self, slot_optimizers: Mapping[Owner, tuple[SlotOptimizer, Sequence[tuple[int, Cell]]]], layout: Layout) -> None:
        """Let the user's optimizer show the cells of its slot optimizers, as far as they exist."""
        of_cell: dict[tuple[int, int], Cell] = {}
        of_role: dict[Role, list[Cell]] = {}
        for slot_optimizer, optimized in slot_optimizers.values():
            for role, cell in zip(slot_optimizer.roles, slot_optimizer.cells, strict=True):
                if role.kind == "slot":
                    of_cell[id(optimized[role.owner][1]), role.number] = cell
                else:
                    of_role.setdefault(role, []).append(cell)
        for role, holder in self.holders:
            trained = self.variables[role.owner].placement if role.kind == "slot" else self.variables[0].placement
            if role.kind == "slot":
                cells = [found for cell in trained.cells if (found := of_cell.get((id(cell), role.number))) is not None]
                if len(cells) == len(trained.cells):
                    _show(holder, whole_of(trained, cells)[1], layout)
            elif role in of_role:
                _show(holder, copies_of(trained, of_role[role])[1], layout)
        if all(owner_of(cell) in slot_optimizers for variable in self.variables for cell in variable.placement.cells):
            self.first_values.clear()


def whole_of(trained: Placement[Variable], cells: Sequence[Cell]) -> tuple[tuple[int, ...], Placement[Variable]]:
    """Shape and placement of a slot that has one cell beside each of a trained variable's."""
    spread = _spread(trained, cells)
    part = cells[0].range
    is_split = spread == "shards" and len(cells) > 1 and part is not None
    shape = part.whole_shape(cells[0].aval.shape) if is_split and part is not None else cells[0].aval.shape
    return shape, Placement(cells, trained.store, spread, trained.combine, across=trained.across)


def copies_of(trained: Placement[Variable], cells: Sequence[Cell]) -> tuple[tuple[int, ...], Placement[Variable]]:
    """Shape and placement of state of an optimizer of which each task has a copy, or each replica with variables of its own."""
    of_replicas = {cell.replica: cell for cell in cells}
    replicas = [cell.replica for cell in trained.cells]
    # Until all replicas have theirs, and where one copy belongs to them all, each reads the first copy that it can.
    if trained.spread == "replicas" and len(cells) == len(replicas) and of_replicas.keys() == set(replicas):
        own = [of_replicas[replica] for replica in replicas]
        return cells[0].aval.shape, Placement(own, trained.store, "replicas", "first")
    readable_first = sorted(cells, key=lambda cell: cell.replica is not None)
    return cells[0].aval.shape, Placement(readable_first, trained.store, "copies")


def require_one_value(optimizer: str, role: Role, cells: Sequence[Cell]) -> None:
    """Refuse state that is no copy of one value, though several tasks have it: neither the slot of a variable, nor a number, nor a key.

    Raises:
        InvalidArgumentError: it is such; it could not be saved or restored as one.
    """
    arrays = [cell for cell in cells if cell.aval.shape and jnp.issubdtype(cell.aval.dtype, jnp.inexact)]
    if role.kind == "shared" and len(arrays) > 1:
        raise InvalidArgumentError(
            f"The state of {optimizer} has an array of shape {arrays[0].aval.shape} that belongs to no single variable, and "
            f"{', '.join(cell.task for cell in arrays)} each have one of their own: it cannot be saved or restored as one. Take a rule "
            "whose state has lists with a part for each variable, as Optax's have, or an optimizer for the variables of each server."
        )


def _spread(trained: Placement[Variable], cells: Sequence[Cell]) -> str:
    """The spread of a slot's cells: how they make up its value."""
    return "copies" if trained.spread == "shards" and len(cells) > 1 and cells[0].range is None else trained.spread


def _show(holder: KerasVariable, placement: Placement[Variable], layout: Layout) -> None:
    """Let a variable of the user's optimizer show these cells."""
    own = adopted(holder)
    if own is None:
        own = unplaced(holder.path, tuple(holder.shape), placement)
        if not any(library.adopt(holder, own) for library in libraries):
            raise FailedPreconditionError(f"No library in use knows the optimizer's variable {holder.path!r}, a {type(holder).__name__}.")
    elif own.shape or own.placement.spread == "replicas":
        # Made in a scope before anybody trained, or for a replica that has come back: what they held has been taken over.
        shown = set(placement.cells)
        layout.drop([cell for cell in own.placement.cells if cell not in shown])
    own.synchronization, own.aggregation = VariableSynchronization.ON_WRITE, VariableAggregation.ONLY_FIRST_REPLICA
    own.placement = placement


def unplaced(name: str, shape: tuple[int, ...], placement: Placement[Variable]) -> Variable:
    """A variable of existing cells, which no strategy has to place."""
    own = Variable.__new__(Variable)
    own.name, own.shape, own.dtype, own.trainable = name, shape, placement.cells[0].aval.dtype, False
    own.synchronization, own.aggregation = VariableSynchronization.ON_WRITE, VariableAggregation.ONLY_FIRST_REPLICA
    own.placement = placement
    return own


def _value_of(variable: KerasVariable) -> Array | None:
    """None where no numbers are computed: what launched mains share at the beginning has no value then."""
    own = adopted(variable)
    if own is None:
        return variable.value
    return own.numpy() if own.placement.store.computes else None
