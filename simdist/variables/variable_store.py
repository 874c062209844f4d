"""What variables ask of the strategy that they belong to: where their values are, and what may be done with them outside of every step.

The class of variables lies above this module, and the strategies that implement these protocols lie above both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from simdist.program.arrays import Array, HostArray
from simdist.program.operations import VariableHandle
from simdist.program.scope import Scope
from simdist.variables.layout import Layout
from simdist.variables.state import Cell

__all__ = ["OwningStrategy", "VariableStore"]

V = TypeVar("V", bound=VariableHandle, contravariant=True)


class OwningStrategy(Scope, Protocol[V]):
    """What a store asks of the strategy whose variables it keeps."""

    is_served: bool  # whether variables are on servers, one value for all replicas
    averages_updates: bool  # whether updates of several workers are averaged, and then count as one
    steps_overlap: bool  # whether several workers take steps of their own, at the same time

    @property
    def num_replicas_in_sync(self) -> int: ...
    @property
    def moves_rows(self) -> bool: ...
    def between_steps(self) -> None:
        """The program is about to read or to change variables outside of every step."""

    def require_change_at_once(self, variable: V, /) -> None:
        """Raise if a variable must not be changed outside of every step here and now."""

    @property
    def is_chief(self) -> bool:
        """Whether this program saves checkpoints."""
        ...

    @property
    def worker_index(self) -> int:
        """The index of the worker that this program drives; 0 where it drives all."""
        ...

    def bytes_of_all(self, data: bytes, /) -> list[bytes]:
        """What each main has, in the order of the workers, so every main has to call it; where one program drives all, what it has."""
        ...

    def require_own_run(self, variable: V, /) -> None:
        """Refuse what a replica of another strategy does to this variable."""

    def assigned(self, variable: V, rule: str, operand: Array, /) -> None:
        """A variable was changed from outside of every step: "assign", or "add"."""


class VariableStore(Protocol[V]):
    """Where the variables of one strategy can be looked at, and changed, from outside of any step.

    Attributes:
        layout: which pieces change together.
        strategy: whose variables they are; None where nobody asks.
        computes: whether variables have values; not where numerics="off".
    """

    layout: Layout

    @property
    def strategy(self) -> OwningStrategy[V] | None: ...
    @property
    def computes(self) -> bool: ...

    def observe(self, variable: V, /) -> Array:
        """The present value of a variable."""
        ...

    def value_here(self, variable: V, /) -> Array:
        """The present value of a variable, as far as this program has it; nothing notes the read."""
        ...

    def cell_value(self, variable: V, cell: Cell, /) -> Array:
        """The present value of one cell of a variable."""
        ...

    def unseen_value(self, variable: V, /) -> Array:
        """The present value of a variable, as its first replica reads it; nothing notes the read."""
        ...

    def unseen_cells(self, cells: Sequence[Cell], /) -> list[Array] | None:
        """The present values of cells; nothing notes the read. None where no numbers are computed."""
        ...

    def update(self, rule: str, variables: Sequence[V], operands: Sequence[Array], /) -> None:
        """Assign to variables, or add to them, at once."""

    def require_present(self, variables: Sequence[V], /) -> None:
        """Raise if one of several variables cannot be changed now."""

    def compute(self, variables: Sequence[V], /) -> None:
        """Compute the present values of several variables in one go, before they are read one after the other."""

    def local_values(self, variable: V, /) -> list[HostArray]:
        """The value of each replica, or worker, that this program has a copy of; for a variable with replica-local values."""
        ...

    def assign_local(self, variable: V, values: Sequence[Array], /) -> None:
        """Assign to each of these copies a value of its own."""
