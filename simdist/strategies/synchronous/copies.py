"""The copies of a variable on the replicas: one cell where they cannot differ, and one for each replica where they can."""

from __future__ import annotations

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array
from simdist.program.operations import Program, Update
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.handles import variable_of
from simdist.variables.placement import Placement
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["place_copies", "require_common_updates", "separate_copies"]

COMBINE = {
    VariableAggregation.NONE: "none",
    VariableAggregation.SUM: "sum",
    VariableAggregation.MEAN: "mean",
    VariableAggregation.ONLY_FIRST_REPLICA: "first",
}


def place_copies(strategy: SteppingStrategy, variable: Variable, value: Array) -> Placement[Variable]:
    """A copy of a new variable for every replica that this program drives."""
    store, members = strategy.store, strategy.local_members
    if variable.synchronization is VariableSynchronization.ON_READ and strategy.has_several_replicas:
        cells = _replica_cells(strategy, variable, "metric")
        summed = variable.aggregation is VariableAggregation.SUM
        for rank, cell in zip(strategy.ranks, cells, strict=True):
            store.layout.add(cell, np.zeros(value.shape, value.dtype) if summed and rank else value)
        return Placement(cells, store, "replicas", COMBINE[variable.aggregation], across=strategy.replicas.read_across)
    if strategy.policy.is_local(variable):
        cells = _replica_cells(strategy, variable)
        for cell in cells:
            store.layout.add(cell, value)
        return Placement(cells, store, "replicas", "mean", separate=strategy.separate, across=strategy.policy.read_across(strategy))
    devices = strategy.variable_devices(tuple(dict.fromkeys(member.device for member in members)))
    cell = Cell(variable.name, variable.aval, members[0].task, devices=devices)
    store.layout.add(cell, value)
    return Placement([cell], store, separate=strategy.separate)


def separate_copies(strategy: SteppingStrategy, variable: Variable) -> None:
    """The copies of a variable get cells of their own, which begin with the value that they share."""
    placement: Placement[Variable] = variable.placement
    if placement.spread == "replicas" or len(strategy.local_members) == 1:
        return
    value = strategy.store.cell_value(variable, placement.cells[0])
    cells = _replica_cells(strategy, variable)
    strategy.store.layout.replace(placement.cells, cells, value)
    placement.cells, placement.spread, placement.combine = cells, "replicas", "first"


def require_common_updates(program: Program) -> None:
    """Refuse to train copies that may differ where a step does not wait for all: the copy of a replica that is given up would stay behind.

    Raises:
        InvalidArgumentError: an optimizer changes such copies.
    """
    trained = [
        variable_of(handle)
        for op in program.operations
        if isinstance(op, Update) and not isinstance(op.rule, str)
        for handle in op.variables
    ]
    names = [variable.name for variable in trained if variable.placement.spread == "replicas"]
    if names:
        raise InvalidArgumentError(
            f"Replicas have assigned values of their own to {', '.join(names)}, and with backup_workers a step does not wait for all of "
            "them: the copy of a replica that is given up would miss the update. Make the variable with aggregation=MEAN, assign to "
            "it outside of strategy.run, or leave backup_workers out."
        )


def _replica_cells(strategy: SteppingStrategy, variable: Variable, kind: str = "parameter") -> list[Cell]:
    return [
        Cell(variable.name, variable.aval, member.task, kind=kind, devices=(member.device,), replica=local_rank)
        for local_rank, member in enumerate(strategy.local_members)
    ]
