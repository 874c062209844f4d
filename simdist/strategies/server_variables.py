"""Where the variables of a strategy with parameter servers lie, and how they are cut into shards.

Metrics (ON_READ) and counters (ONLY_FIRST_REPLICA that no optimizer trains) go to the chief, variables with a copy for each worker to the
workers, all else to the servers: whole, or in the shards of a partitioner. Which server gets the next cell is chosen in
`simdist.strategies.server_placement`. Variables that were made outside of every scope live on the chief, as in TensorFlow; they move there
when a step first uses them.

Taught in lesson 06.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.program.arrays import Array, jax_array
from simdist.program.operations import Program, VariableHandle, variables_used
from simdist.program.scope import is_default
from simdist.program.values import aval_of
from simdist.strategies.base import Strategy
from simdist.strategies.server_placement import ServerPlacement
from simdist.strategies.worker_copies import WorkerCopies
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.handles import variable_of
from simdist.variables.partitioners import checked_cut
from simdist.variables.placement import Placement
from simdist.variables.shard_range import ShardRange, equal_ranges
from simdist.variables.sharded import ShardedVariable
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["ServerVariables", "move_to_chief", "require_partitioner"]


class ServerVariables:
    """Gives the variables of one strategy their cells.

    Args:
        strategy: whose variables they are.
        copies: of variables that each worker has for itself.
        partitioner: splits large variables along one axis; None: none is split.
        placement: chooses the server of each cell.
    """

    def __init__(self, strategy: Strategy, copies: WorkerCopies, partitioner: Any, placement: ServerPlacement) -> None:
        self.strategy = strategy
        self.copies = copies
        self.partitioner = partitioner
        self.placement = placement

    def place(self, variable: Variable, value: Array) -> Placement[Variable]:
        """The cells of a new variable, with this first value."""
        strategy = self.strategy
        if variable.per_worker:
            return self.copies.place(variable, value)
        if variable.synchronization is VariableSynchronization.ON_READ:
            return strategy.whole(variable, value, strategy.default_device, kind="metric")
        if variable.aggregation is VariableAggregation.ONLY_FIRST_REPLICA and not _can_be_trained(variable):
            return strategy.whole(variable, value, strategy.default_device, kind="slot")
        ranges = self.ranges_of(variable)
        return self._in_shards(variable, value, ranges) if ranges else strategy.whole(variable, value, self._server())

    def _in_shards(self, variable: Variable, value: Array, ranges: list[ShardRange]) -> Placement[Variable]:
        store = self.strategy.store
        cells: list[Cell] = []
        for part in ranges:
            piece = jax_array(part.of(np.asarray(value)))
            cell = Cell(variable.name, aval_of(piece), self._server(), part)
            store.layout.add(cell, piece)
            cells.append(cell)
        ShardedVariable.of(variable)
        return Placement(cells, store)

    def ranges_of(self, variable: VariableHandle) -> list[ShardRange]:
        """The shards into which the partitioner splits a variable; none where it stays whole: beside another one, or as a scalar."""
        if self.partitioner is None or not variable.shape or self.strategy.colocated_with is not None:
            return []
        axis, count = checked_cut(self.partitioner(variable.shape, np.dtype(variable.dtype)), variable.shape)
        return equal_ranges(axis, variable.shape[axis], count) if count > 1 else []

    def _server(self) -> str:
        """The server of the next cell: that of another variable, beside which it shall lie, or the next by the rule."""
        beside = self.strategy.colocated_with
        return self.placement.choose() if beside is None else beside.placement.cells[0].task


def _can_be_trained(variable: Variable) -> bool:
    """Whether optimizers may change it: servers keep, split and average in rounds what they train, whatever its assignments do."""
    return variable.trainable and bool(jnp.issubdtype(variable.dtype, jnp.inexact))


def require_partitioner(given: object) -> None:
    """Refuse what cannot split variables.

    Raises:
        TypeError: it cannot; also a class of partitioners, of which none was made.
    """
    if given is not None and (isinstance(given, type) or not callable(given)):
        raise TypeError(f"variable_partitioner is {given!r}; expected for example sd.FixedShardsPartitioner(2)")


def move_to_chief(strategy: Strategy, program: Program) -> None:
    """Let variables that were made outside of every scope live on the chief of the strategy whose step uses them."""
    for op in program.operations:
        for variable in map(variable_of, variables_used(op)):
            store = variable.placement.store
            if store is not strategy.store and is_default(store.strategy) and len(variable.placement.cells) == 1:
                value, before = store.cell_value(variable, variable.placement.cells[0]), variable.placement.cells
                variable.placement = strategy.whole(variable, np.asarray(value), strategy.engine.chief)
                strategy.known_variables.append(variable)
                store.layout.drop(before)
