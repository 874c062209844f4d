"""The store: reads and assignments of variables from outside of a step.

A look takes no virtual time and is recorded as an observation; an assignment from the notebook happens at once. Both see exactly
the version that the schedule has reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from simdist.errors import FailedPreconditionError
from simdist.interrupts import delayed_interrupts
from simdist.program.arrays import Array, Arrays, HostArray, jax_arrays
from simdist.program.fixed_reads import require_may_be_read
from simdist.program.half_precision import is_half, widened
from simdist.program.tracing import active_tracer
from simdist.program.values import snapshot
from simdist.runtime.base import Engine
from simdist.runtime.updating import Assignment
from simdist.runtime.work import running_closure
from simdist.variables.aggregation import increment_of_sum, no_combination
from simdist.variables.handles import variable_of
from simdist.variables.layout import Layout
from simdist.variables.placement import Placement
from simdist.variables.read_cache import cached_read
from simdist.variables.state import Cell
from simdist.variables.variable import Variable
from simdist.variables.variable_store import OwningStrategy

__all__ = ["Store"]

Change = tuple[Sequence[Cell], Array]
"""Cells, and the operand that changes each of them."""


class Store:
    """The variables of one strategy, for code outside of a step.

    Args:
        engine: keeps the values.
        observed: called at each read from outside, with the name of the variable.
        strategy: whose variables they are.
    """

    def __init__(self, engine: Engine, observed: Callable[[str], None], strategy: OwningStrategy[Variable] | None = None) -> None:
        self.engine = engine
        self.strategy = strategy
        self.layout = Layout(engine.versions)
        self.observed = observed

    @property
    def computes(self) -> bool:
        return self.engine.numerics != "off"

    def observe(self, variable: Variable) -> Array:
        """The present value of a variable.

        Raises:
            UnavailableError: a task that held a part of it has died.
        """
        require_may_be_read(variable)
        return cached_read(variable, self, None, lambda: self._observe(variable))

    def _observe(self, variable: Variable) -> Array:
        self._between_steps()
        placement: Placement[Variable] = variable.placement
        self._require_own(variable)
        self._require_seen(variable)
        self.observed(variable.name)
        return self.value_here(variable) if placement.across is None else placement.across(variable)

    def value_here(self, variable: Variable) -> Array:
        """The present value of a variable, as far as this program has it, where others have copies of their own; nothing notes the read."""
        placement: Placement[Variable] = variable.placement
        if placement.combine == "worker":
            return self._array(self._cell_here(variable))
        if placement.spread == "copies" or len(placement.cells) == 1:
            return self._array(placement.cells[0])
        arrays = self._read(placement.cells)
        if placement.spread == "shards":
            return np.concatenate([np.asarray(array) for array in arrays], axis=placement.axis)
        if placement.combine == "first":
            return arrays[0]
        if placement.combine == "none":
            raise no_combination(variable)
        if placement.combine == "mean":
            total = sum(widened(np.asarray(array)) for array in arrays)
            mean = cast(HostArray, total / len(arrays))
            return mean.astype(variable.dtype) if is_half(variable.dtype) else mean
        return cast(HostArray, sum(np.asarray(array) for array in arrays))

    def compute(self, variables: Sequence[Variable]) -> None:
        """Compute the present values of several variables in one go, before they are read one after the other."""
        self._between_steps()
        if self.computes:
            self._groups([cell for variable in variables for cell in variable.placement.cells])

    def local_values(self, variable: Variable) -> list[HostArray]:
        """The value of each cell of a variable with replica-local values."""
        self._between_steps()
        return list(map(np.asarray, self._read(variable.placement.cells)))

    def assign_local(self, variable: Variable, values: Sequence[Array]) -> None:
        """Assign to each cell of a variable with replica-local values."""
        self._between_steps()
        cells = variable.placement.cells
        self._change_all("assign", [([cell], snapshot(value)) for cell, value in zip(cells, values, strict=True)])
        if self.strategy is not None and variable.companions:
            mean = np.mean(values, axis=0, dtype="float32" if is_half(variable.dtype) else variable.dtype)
            self.strategy.assigned(variable, "assign", mean.astype(variable.dtype))

    def cell_value(self, variable: Variable, cell: Cell) -> Array:
        """The present value of one cell of a variable."""
        self.observed(variable.name)
        return self._array(cell)

    def unseen_value(self, variable: Variable) -> Array:
        """The present value of a variable, as its first replica reads it; nothing notes the read."""
        self._between_steps()
        arrays = self._read(variable.placement.read_by(0))
        return arrays[0] if len(arrays) == 1 else np.concatenate([np.asarray(array) for array in arrays], axis=variable.placement.axis)

    def unseen_cells(self, cells: Sequence[Cell]) -> list[Array] | None:
        """The present values of cells; nothing notes the read. None where no numbers are computed."""
        return list(map(self._array, cells)) if self.computes else None

    def _array(self, cell: Cell) -> Array:
        return self._read([cell])[0]

    def _read(self, cells: Sequence[Cell]) -> Arrays:
        return jax_arrays([arrays[cell.position] for cell, arrays in zip(cells, self._groups(cells), strict=True)])

    def _groups(self, cells: Sequence[Cell]) -> list[Arrays]:
        return self.engine.read([cell.group.number for cell in cells])

    def update(self, rule: str, variables: Sequence[Variable], operands: Sequence[Array]) -> None:
        """Assign to variables, or add to them, at once: to all of them, or to none.

        Raises:
            UnavailableError: a task that held a part of one has died.
        """
        self._between_steps()
        given = list(zip(variables, map(snapshot, operands), strict=True))
        self._change_all(rule, [change for variable, operand in given for change in self._changes(rule, variable, operand)])
        for variable, operand in given:
            if self.strategy is not None and variable.companions and not self._is_of_closure(variable):
                self.strategy.assigned(variable, rule, operand)

    def _changes(self, rule: str, variable: Variable, operand: Array) -> list[Change]:
        """What changes each cell of a variable."""
        placement: Placement[Variable] = variable.placement
        self._require_own(variable)
        self._require_seen(variable)
        if self.strategy is not None and placement.combine != "worker":
            self.strategy.require_change_at_once(variable)
        if self._is_of_closure(variable):
            return [([self._cell_here(variable)], operand)]
        if placement.combine == "sum":
            if rule == "add":
                raise increment_of_sum(variable)
            return self._changes_of_sum(placement, operand)
        pieces = list(zip(placement.cells, placement.ranges, strict=True))
        whole = [cell for cell, part in pieces if part is None]
        return [(whole, operand), *(([cell], operand[part.index]) for cell, part in pieces if part is not None)]

    def _changes_of_sum(self, placement: Placement[Variable], operand: Array) -> list[Change]:
        """Each replica gets its share."""
        assert self.strategy is not None
        first, others = _shares(operand, self.strategy.num_replicas_in_sync)
        if first is others or self.strategy.worker_index:
            return [(placement.cells, others)]  # the first of all replicas is another main's
        return [
            ([cell for cell in placement.cells if not cell.replica], first),
            ([cell for cell in placement.cells if cell.replica], others),
        ]

    def _is_of_closure(self, variable: Variable) -> bool:
        """Whether it has a value on each worker, and a closure runs, which uses that of its own."""
        return variable.placement.combine == "worker" and running_closure.get() is not None

    def _cell_here(self, variable: Variable) -> Cell:
        """The copy of the worker whose closure runs.

        Raises:
            FailedPreconditionError: no closure of this strategy runs.
        """
        closure = running_closure.get()
        if closure is None or closure.strategy is not self.strategy:
            raise FailedPreconditionError(
                f"{variable.name} has a value on each worker, and is read where no closure runs. Write {variable.name}.read_all() for the "
                "values of all workers, or read it in a function that coordinator.schedule runs."
            )
        return next(cell for cell in variable.placement.cells if cell.task == closure.worker)

    def _between_steps(self) -> None:
        """The strategy may see now that replicas have died, whose values do not count any more."""
        if self.strategy is not None:
            self.strategy.between_steps()

    def _require_own(self, variable: Variable) -> None:
        """Refuse a read or an assignment by a replica of another strategy."""
        if self.strategy is not None:
            self.strategy.require_own_run(variable)

    def _require_seen(self, variable: Variable) -> None:
        """Refuse to use a variable in a plain function of which a step has changed it, where that counts later."""
        closure = running_closure.get()
        if closure is None or not closure.changed or active_tracer() is not None:
            return
        in_rounds = self.strategy is not None and self.strategy.averages_updates
        if not in_rounds and variable.placement.cells[0].task != self.engine.chief:
            return
        if any(variable_of(changed) is variable for changed in closure.changed):
            when = "with its round" if in_rounds else f"on {self.engine.chief} when the reply has come"
            raise FailedPreconditionError(
                f"{variable.name} was changed by a step of the plain function that runs as closure {closure.number}, which counts {when}. "
                "Read or change it in that step, and return what you need."
            )

    def require_present(self, variables: Sequence[Variable]) -> None:
        """Refuse to change several variables, one after the other, of which one cannot be changed now.

        Raises:
            UnavailableError: a task that held a part of one has died.
        """
        self._between_steps()
        self.engine.require_present([cell.group.number for variable in variables for cell in variable.placement.cells])

    def _change_all(self, rule: str, changes: Sequence[Change]) -> None:
        """Change cells, those of each change by its operand; none where one of them cannot be changed now."""
        self.engine.require_present([cell.group.number for cells, _ in changes for cell in cells])
        with delayed_interrupts():  # between two changes the engine may compute for long what is pending
            for cells, operand in changes:
                alike: dict[Assignment, list[Cell]] = {}
                for cell in cells:
                    alike.setdefault(Assignment(rule, cell.group.avals, cell.position), []).append(cell)
                for change, own in alike.items():
                    self.engine.assign([cell.group.number for cell in own], change, operand, f"{rule} {own[0].name}")


def _shares(value: Array, num_replicas: int) -> tuple[Array, Array]:
    """The shares of a value that is the sum of all replicas: that of the first, which has the rest of whole numbers, and of each other."""
    if np.issubdtype(np.dtype(value.dtype), np.integer):
        part = value // num_replicas
        rest = value % num_replicas
        return (part + rest, part) if np.asarray(rest).any() else (part, part)
    part = value / num_replicas
    return part, part
