"""`ShardedVariable`: a variable whose rows are on several parameter servers.

It is used like any other variable: a read joins the shards, and an update is split among them. `variables` shows the shards.
"""

from __future__ import annotations

from simdist.program.arrays import HostArray
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["Shard", "ShardedVariable"]


class Shard:
    """One shard of a variable, for reading.

    Attributes:
        name: that of the variable, with the number of the shard.
        shape: (s, ...): the shard has s rows.
        dtype: that of the variable.
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
    """A `Variable` that its strategy has split along its first axis. A partitioner makes it, and no user.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
        >>> with strategy.scope():
        ...     table = sd.Variable(np.arange(6.0).reshape(3, 2), name="table")
        >>> table.variables
        [Shard('table/part_0', rows=(0, 2), on='ps:0'), Shard('table/part_1', rows=(2, 3), on='ps:1')]
        >>> table.variables[1].numpy().tolist()
        [[4.0, 5.0]]
        >>> table.shape
        (3, 2)
    """

    @property
    def variables(self) -> list[Shard]:
        """The shards in the order of their rows."""
        return [Shard(self, number) for number in range(len(self.placement.cells))]

    @classmethod
    def of(cls, variable: Variable) -> None:
        """Change the class of a variable that was split to this one."""
        variable.__class__ = cls
