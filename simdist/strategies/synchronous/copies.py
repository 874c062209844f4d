"""The copies of a variable on the replicas: one cell where they cannot differ, and one for each replica where they can."""

from __future__ import annotations

import numpy as np

from simdist.program.arrays import Array
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.state import Cell
from simdist.variables.variable import Placement, Variable

__all__ = ["place_copies", "separate_copies"]

COMBINE = {
    VariableAggregation.NONE: "none",
    VariableAggregation.SUM: "sum",
    VariableAggregation.MEAN: "mean",
    VariableAggregation.ONLY_FIRST_REPLICA: "first",
}


def place_copies(strategy: SteppingStrategy, variable: Variable, value: Array) -> Placement:
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
        return Placement(cells, store, "replicas", "mean", separate=strategy.separate)
    devices = strategy.variable_devices(tuple(dict.fromkeys(member.device for member in members)))
    cell = Cell(variable.name, variable.aval, members[0].task, devices=devices)
    store.layout.add(cell, value)
    return Placement([cell], store, separate=strategy.separate)


def separate_copies(strategy: SteppingStrategy, variable: Variable) -> None:
    """The copies of a variable get cells of their own, which begin with the value that they share."""
    placement: Placement = variable.placement
    if placement.spread == "replicas" or len(strategy.local_members) == 1:
        return
    value = strategy.store.cell_value(variable, placement.cells[0])
    cells = _replica_cells(strategy, variable)
    strategy.store.layout.replace(placement.cells, cells, value)
    placement.cells, placement.spread, placement.combine = cells, "replicas", "first"


def _replica_cells(strategy: SteppingStrategy, variable: Variable, kind: str = "parameter") -> list[Cell]:
    return [
        Cell(variable.name, variable.aval, member.task, kind=kind, devices=(member.device,), replica=local_rank)
        for local_rank, member in enumerate(strategy.local_members)
    ]
