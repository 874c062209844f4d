"""The state of an optimizer goes along with variables that get other cells.

Replicas that assign values of their own to a variable have copies of it from then on. Each copy has slots of its own, which begin with
those that the variable had. State whose variable stays where it is keeps its cells; that of a replica stays with it where its rank is
another one than before, as others have left, and is given to replicas that come anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.program.arrays import Array
from simdist.variables.keras_copies import Role
from simdist.variables.layout import Layout
from simdist.variables.slot_optimizer import SlotOptimizer
from simdist.variables.state import Cell, Owner, owner_of

__all__ = ["MovedState", "NumberedCells"]

NumberedCells: TypeAlias = "Sequence[tuple[int, Cell]]"
"""Cells that are optimized, with the numbers of their variables."""
Read: TypeAlias = "Callable[[Sequence[Cell]], list[Array] | None]"
StateKey: TypeAlias = "tuple[Owner | Cell | None, Role]"


class MovedState:
    """The cells that hold the state of a rule, before it follows its variables.

    Args:
        slot_optimizers: of each owner.
        optimized: of each owner the cells that it optimizes.
        layout: knows which cells were lost with their task.
        read: gives the present values of cells; None where no numbers are computed.
    """

    def __init__(
        self, slot_optimizers: Mapping[Owner, SlotOptimizer], optimized: Mapping[Owner, NumberedCells], layout: Layout, read: Read
    ) -> None:
        self._read = read
        self._cells: dict[StateKey, Cell] = {}
        self._of_variables: dict[Role, Cell] = {}
        self._lost: set[Cell] = set()
        for before, slot_optimizer in slot_optimizers.items():
            owner = owner_of(optimized[before][0][1])  # its rank may be another one now
            for role, cell in zip(slot_optimizer.roles, slot_optimizer.cells, strict=True):
                if not layout.versions.devices_of(cell.group.number):
                    self._lost.add(cell)
                    continue
                key, of_variable = _keys_of(role, owner, optimized[before])
                self._cells[key] = cell
                self._of_variables.setdefault(of_variable, cell)

    @property
    def cells(self) -> list[Cell]:
        """All of them."""
        return [*self._cells.values(), *self._lost]

    def has(self, role: Role, cells: NumberedCells) -> bool:
        """Whether a part of a new slot optimizer, for these cells, has a value here."""
        return _keys_of(role, None, cells)[1] in self._of_variables

    def taken_by(self, new: SlotOptimizer, owner: Owner, cells: NumberedCells) -> SlotOptimizer:
        """A new slot optimizer with this state: cells of what has stayed, and copies of what has moved."""
        found: list[Cell] = []
        initial: list[jax.Array] = []
        for role, cell, first in zip(new.roles, new.cells, new.initial, strict=True):
            key, of_variable = _keys_of(role, owner, cells)
            found.append(self._cells.get(key, cell))
            found[-1].replica = cell.replica
            initial.append(self._value(of_variable, first) if found[-1] is cell else first)
        return replace(new, cells=found, initial=initial)

    def _value(self, role: Role, first: jax.Array) -> jax.Array:
        before = self._of_variables.get(role)
        values = None if before is None else self._read([before])
        return first if values is None else jnp.asarray(values[0], first.dtype)


def _keys_of(role: Role, owner: Owner | None, cells: NumberedCells) -> tuple[StateKey, Role]:
    """Where a part of the state is, by the cell that it belongs to or by the owner; and its role, with the number of its variable."""
    if role.kind != "slot":
        return (owner, role), role
    number, cell = cells[role.owner]
    return (cell, role._replace(owner=-1)), role._replace(owner=number)
