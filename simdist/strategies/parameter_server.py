"""`ParameterServerStrategy`: variables on parameter servers and steps on workers, asynchronously or in rounds.

Variables are placed on the parameter servers round-robin. A partitioner splits large ones into shards, which are placed in the
same way. A worker reads variables, computes, and sends updates; the server applies them in the order of their arrival. Workers do
not wait for each other, so a gradient may be stale; with ``mode="bounded"`` or ``"sync"`` they do. Metrics are on the chief: the
additions of a closure travel with its reply, so a closure that dies before its end does not count.

Source: Li et al., Scaling Distributed Machine Learning with the Parameter Server, 2014.

Taught in lesson 01.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.arguments import flag
from simdist.caches import BoundedCache
from simdist.errors import InvalidArgumentError
from simdist.input import InputContext
from simdist.process_state import TaskLocal
from simdist.program.function import KEPT_SIGNATURES, program_cache
from simdist.program.operations import Program
from simdist.program.values import aval_of
from simdist.runtime.cluster import Cluster
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.serving import Recovery, Serving
from simdist.strategies.base import Strategy, cluster_behind
from simdist.strategies.server_modes import Mode, checked_mode, checked_recovery
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.partitioners import checked_partitions, row_ranges
from simdist.variables.sharded import ShardedVariable
from simdist.variables.state import Cell
from simdist.variables.variable import Placement, Variable

__all__ = ["ParameterServerStrategy", "making_dataset"]

making_dataset: TaskLocal[str] = TaskLocal(str)
"""The worker that makes its dataset now; empty where none does."""


class ParameterServerStrategy(Strategy):
    """Training with parameter servers.

    Args:
        cluster_or_resolver: a `Cluster` with at least one worker and one ps, or its resolver.
        variable_partitioner: splits large variables along their first axis; default: none is split.
        mode: "async" (default): each update counts as soon as it arrives, and no worker waits for another. "sync": workers take steps in
            rounds; the gradients of a round are averaged at the servers and applied as one update. "bounded": as "sync", but a worker may
            be up to `staleness` rounds ahead of the slowest.
        staleness: rounds, 0 or more; of mode="bounded", which needs it. 0 is "sync".
        backup_workers: of mode="sync": a round does not wait for so many workers, the slowest; default 0. What they compute for it is
            dropped, and their closures are run again.
        recovery: what becomes of the variables of a parameter server that dies. "raise" (default): they are lost, as in TensorFlow.
            "replica": each server keeps a copy of the variables of the one before it, and nothing is lost. "checkpoint": they are
            restored from the last snapshot on the server's disk. In the last two cases a server that nobody else starts again is started
            again, and workers wait for it.
        exactly_once: whether servers know the updates of a closure that is run again, and apply each of them once; default False: at
            least once, as in TensorFlow. In rounds that is always so.

    Raises:
        InvalidArgumentError: no worker, no ps, a resolver that belongs to no `Cluster`, an unknown mode or recovery, a staleness without
            mode="bounded" or below 0, backup workers without mode="sync" or as many as there are workers, or recovery="replica" with a
            single ps.

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

    def __init__(
        self,
        cluster_or_resolver: Any,
        variable_partitioner: Any = None,
        mode: Mode = "async",
        staleness: int | None = None,
        backup_workers: int = 0,
        recovery: Recovery = "raise",
        exactly_once: bool = False,
    ) -> None:
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
        self.mode = mode
        self.staleness, self.backup_workers = checked_mode(mode, staleness, backup_workers, len(self.workers))
        self.serving = Serving(
            tuple(self.servers), mode != "async", checked_recovery(recovery, self.servers), flag(exactly_once, "exactly_once")
        )
        self._next_server = 0
        self.programs = program_cache()
        self.linked: BoundedCache[Program, LinkedProgram] = BoundedCache(KEPT_SIGNATURES)
        self.coordinator: Any = None  # the coordinator of this strategy, once there is one

    @property
    def default_device(self) -> str:
        return self.engine.chief

    def input_context(self, worker: str) -> InputContext:
        """Which pipeline a worker builds, of those of the workers that there are now."""
        number = self.workers.index(worker) if worker in self.workers else 0
        return InputContext(len(self.workers), number, self.num_replicas_in_sync)

    def create(self, variable: Variable, value: Any) -> None:
        worker = making_dataset.get()
        if worker:
            raise InvalidArgumentError(
                f"{variable.name!r} was made while {worker} made its dataset, and each worker would make one more. Make variables in "
                "strategy.scope(), before the dataset, and use them in its functions."
            )
        super().create(variable, value)

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
