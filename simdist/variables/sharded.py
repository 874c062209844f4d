"""`ShardedVariable`: a variable whose rows lie on several parameter servers.

It is used like any other variable: reads join the shards, updates are cut for them. `variables` shows the shards.
"""

from __future__ import annotations

from simdist.program.arrays import HostArray
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["Shard", "ShardedVariable"]


class Shard:
    """One shard, to look at.

    Attributes:
        rows: first and one-past-last row of the whole variable.
        device: the task that holds it.
    """

    def __init__(self, variable: Variable, number: int) -> None:
        cell: Cell = variable.placement.cells[number]
        self.name = f"{variable.name}/part_{number}"
        self.shape, self.dtype = cell.aval.shape, cell.aval.dtype
        self.rows = cell.rows
        self.device = cell.task
        self._variable = variable

    def numpy(self) -> HostArray:
        """The present value of the shard."""
        first, stop = self.rows or (0, self.shape[0])
        return self._variable.numpy()[first:stop]

    def __repr__(self) -> str:
        return f"Shard({self.name!r}, rows={self.rows}, on={self.device!r})"


class ShardedVariable(Variable):
    """A `Variable` that its strategy has split along its first axis. Not made directly: a partitioner decides."""

    @property
    def variables(self) -> list[Shard]:
        """The shards in the order of their rows."""
        return [Shard(self, number) for number in range(len(self.placement.cells))]

    @classmethod
    def of(cls, variable: Variable) -> None:
        """Make a variable that was split one of this class."""
        variable.__class__ = cls
