"""`ParameterServerStrategy`: asynchronous training, with variables on parameter servers and steps on workers.

Variables are placed on the parameter servers round-robin. A partitioner splits large ones into shards, which are placed in the
same way. A worker reads variables, computes, and sends updates; the server applies them in the order of their arrival. Workers do
not wait for each other, so a gradient may be stale. Metrics are on the chief: the additions of a closure travel with its
reply, so a closure that dies before its end does not count.

Source: Li et al., Scaling Distributed Machine Learning with the Parameter Server, 2014.

Taught in lesson 01.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.caches import BoundedCache
from simdist.errors import InvalidArgumentError
from simdist.program.function import KEPT_SIGNATURES, program_cache
from simdist.program.operations import Program
from simdist.program.values import aval_of
from simdist.runtime.cluster import Cluster
from simdist.runtime.linked import LinkedProgram
from simdist.strategies.base import Strategy, cluster_behind
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.partitioners import checked_partitions, row_ranges
from simdist.variables.sharded import ShardedVariable
from simdist.variables.state import Cell
from simdist.variables.variable import Placement, Variable

__all__ = ["ParameterServerStrategy"]


class ParameterServerStrategy(Strategy):
    """Asynchronous training with parameter servers.

    Args:
        cluster_or_resolver: a `Cluster` with at least one worker and one ps, or its resolver.
        variable_partitioner: splits large variables along their first axis; default: none is split.

    Raises:
        InvalidArgumentError: no worker, no ps, or a resolver that belongs to no `Cluster`.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), sd.FixedShardsPartitioner(2))
        >>> with strategy.scope():
        ...     table = sd.Variable(np.zeros((4, 3)), name="table")
        >>> [shard.device for shard in table.variables]
        ['ps:0', 'ps:1']
        >>> coordinator = sd.ClusterCoordinator(strategy)
        >>> closures = [coordinator.schedule(sd.function(lambda: table.assign_add(np.ones((4, 3))))) for _ in range(3)]
        >>> coordinator.join()
        >>> table.numpy()[0].tolist()
        [3.0, 3.0, 3.0]
    """

    moves_rows = True

    def __init__(self, cluster_or_resolver: Any, variable_partitioner: Any = None) -> None:
        cluster = cluster_behind(cluster_or_resolver)
        if not isinstance(cluster, Cluster):
            raise InvalidArgumentError(
                f"ParameterServerStrategy needs an sd.Cluster (or its .resolver); got {type(cluster_or_resolver).__name__}. "
                'For example sd.Cluster({"worker": 3, "ps": 2}).'
            )
        for job in ("worker", "ps"):
            if job not in cluster.spec.jobs or cluster.spec.num_tasks(job) == 0:
                raise InvalidArgumentError(
                    f"ParameterServerStrategy needs at least one {job} task; the cluster has {cluster.spec.as_dict()!r}."
                )
        if variable_partitioner is not None and not callable(variable_partitioner):
            raise TypeError(f"variable_partitioner is {variable_partitioner!r}; expected for example sd.FixedShardsPartitioner(2)")
        super().__init__(cluster)
        self.cluster_resolver = cluster.resolver
        self.partitioner = variable_partitioner
        self.servers = [f"ps:{index}" for index in cluster.spec.task_indices("ps")]
        self.workers = [f"worker:{index}" for index in cluster.spec.task_indices("worker")]
        self.worker_numbers = {name: number for number, name in enumerate(self.workers)}
        self._next_server = 0
        self.programs = program_cache()
        self.linked: BoundedCache[Program, LinkedProgram] = BoundedCache(KEPT_SIGNATURES)
        self.coordinator: Any = None  # the coordinator of this strategy, once there is one

    @property
    def default_device(self) -> str:
        return self.engine.chief

    def place(self, variable: Variable, value: Any) -> Placement:
        """Metrics and counters go to the chief, all else to the servers in turn."""
        if variable.synchronization is VariableSynchronization.ON_READ:
            return self.whole(variable, value, self.default_device, kind="metric")
        if variable.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return self.whole(variable, value, self.default_device, kind="slot")
        shards = self._num_shards(variable)
        if shards == 1:
            return self.whole(variable, value, self._server())
        cells: list[Cell] = []
        for first, stop in row_ranges(variable.shape[0], shards):
            piece = jnp.asarray(np.asarray(value)[first:stop])
            cell = Cell(variable.name, aval_of(piece), self._server(), (first, stop))
            self.store.layout.add(cell, piece)
            cells.append(cell)
        ShardedVariable.of(variable)
        return Placement(cells, self.store)

    def _num_shards(self, variable: Variable) -> int:
        if self.partitioner is None or not variable.shape:
            return 1
        return checked_partitions(self.partitioner(variable.shape, np.dtype(variable.dtype)), variable.shape)

    def _server(self) -> str:
        if self.colocated_with is not None:
            return self.colocated_with.placement.cells[0].task
        server = self.servers[self._next_server % len(self.servers)]
        self._next_server += 1
        return server
