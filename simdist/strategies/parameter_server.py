"""`ParameterServerStrategy`: variables on parameter servers and steps on workers, asynchronously or in rounds.

Variables are placed on the parameter servers round-robin, or by bytes. A partitioner splits large ones into shards, along any one axis,
which are placed in the same way. A worker reads variables, computes, and sends updates; the server applies them in the
order of their arrival. Workers do not wait for each other, so a gradient may be stale; with ``mode="bounded"`` or ``"sync"`` they do.
Metrics are on the chief: the additions of a closure travel with its reply, so a closure that dies before its end does not count.

Source: Li et al., Scaling Distributed Machine Learning with the Parameter Server, 2014.

Taught in lessons 01, 05 and 07.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

from simdist.arguments import flag, whole_number
from simdist.data import Dataset
from simdist.input import InputContext, InputOptions
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.operations import Program, VariableHandle
from simdist.program.tracing import active_tracer
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.serving import Recovery, Serving
from simdist.runtime.work import running_closure
from simdist.runtime.worker_replicas import LocalReplicas
from simdist.strategies.base import Strategy
from simdist.strategies.coordinated_cluster import coordinated_cluster
from simdist.strategies.coordinator_steps import CoordinatorSteps
from simdist.strategies.devices import few_devices
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.ownership import require_a_step
from simdist.strategies.served_programs import ServedPrograms
from simdist.strategies.server_input import input_of_workers, refuse_variable_of_dataset, require_dataset
from simdist.strategies.server_modes import Mode, checked_mode, checked_recovery
from simdist.strategies.server_placement import server_placement
from simdist.strategies.server_traffic import hot_rows, named, traffic_records
from simdist.strategies.server_variables import ServerVariables, require_partitioner
from simdist.strategies.worker_copies import WorkerCopies
from simdist.strategies.worker_replicas import WorkerReplicas
from simdist.variables.handles import AnyVariable
from simdist.variables.optimizer import as_variable
from simdist.variables.placement import Placement
from simdist.variables.read_cache import reading_once
from simdist.variables.shard_range import ShardRange
from simdist.variables.traffic import HotRow, TrafficRecord
from simdist.variables.variable import Variable

__all__ = ["ParameterServerStrategy"]

T = TypeVar("T")


class ParameterServerStrategy(Strategy):
    """Training with parameter servers.

    Args:
        cluster_resolver: a `Cluster` with at least one worker and one ps, or its resolver; in the main that was launched on the chief,
            any resolver of its cluster, or None to find it from TF_CONFIG.
        variable_partitioner: splits large variables along one axis; default: none is split.
        mode: "async" (default): each update counts as soon as it arrives, and no worker waits for another; what a step assigns to several
            variables, one after the other, travels together. "sync": workers take steps in rounds, and a step sends what it assigns to a
            variable when the servers have confirmed what it assigned before; the gradients of a round that optimizers apply are averaged at
            the servers, and applied as one update; increments (`assign_add`) are added up, of assignments the last one counts, and changes
            of single elements are made one after the other. A worker that is down is left out of the rounds until it is back, so that the
            same closures make more of them. "bounded": as "sync", but a worker may be up to `staleness` rounds ahead of the slowest.
        staleness: rounds, 0 or more; of mode="bounded", which needs it. 0 is "sync".
        backup_workers: of mode="sync": a round does not wait for so many workers, the slowest; default 0. What they compute for it is
            dropped, and their closures are run again.
        placement: which server gets the next variable or shard: "round_robin" (default), or "bytes" for the one with the fewest bytes so
            far.
        recovery: what becomes of the variables of a parameter server that dies. "raise" (default): they are lost, as in TensorFlow.
            "replica": each server keeps a copy of the variables of the one before it, and nothing is lost. "checkpoint": they are
            restored from the last snapshot on the server's disk, which is lost with its machine; one begins every ten seconds, and
            where variables are assigned to between steps, as by a restore. In the last two cases a server that nobody else starts
            again is started again, and steps wait for it.
        exactly_once: whether servers know the updates of a closure that is run again, each by its place in the closure, and apply it
            once, as it came first; default False: at least once, as in TensorFlow. A closure is no transaction: when it is run again it
            reads variables with what its first run has changed, and what it returns, adds to metrics or sends then follows from that.
            In rounds each closure counts once, and an attempt that does not count leaves no mark. With recovery="checkpoint" a server
            that goes back to a snapshot loses updates that were applied. A plain function can change variables in steps only then.
        devices_per_worker: how many devices of each worker compute; default 1, the worker's own. Of more, each is a replica
            (`num_replicas_in_sync`); those of a worker take each step together. Then a worker reads variables once for all, each row of
            an embedding table too, and sends one update, of the sum of their gradients.

    Raises:
        InvalidArgumentError: no worker, no ps, a resolver that belongs to no `Cluster` or to a task that serves, an unknown mode, placement
            or recovery, a staleness without mode="bounded" or below 0, backup workers without mode="sync" or as many as there are
            workers, recovery="replica" with a single ps, or no device.
        FailedPreconditionError: rounds, and an engine without time.

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
        cluster_resolver: Any = None,
        variable_partitioner: Any = None,
        mode: Mode = "async",
        staleness: int | None = None,
        placement: str = "round_robin",
        recovery: Recovery = "raise",
        exactly_once: bool = False,
        backup_workers: int = 0,
        devices_per_worker: int = 1,
    ) -> None:
        self.cluster_resolver, cluster = coordinated_cluster(cluster_resolver)
        require_partitioner(variable_partitioner)
        super().__init__(cluster)
        self.partitioner = variable_partitioner
        self.servers = [f"ps:{index}" for index in cluster.spec.task_indices("ps")]
        self.workers: list[str] = []
        self.change_workers([f"worker:{index}" for index in cluster.spec.task_indices("worker")])
        self.mode, self.staleness, self.backup_workers = checked_mode(mode, staleness, backup_workers, len(self.workers))
        self.serving = Serving(
            tuple(self.servers), self.mode != "async", checked_recovery(recovery, self.servers), flag(exactly_once, "exactly_once")
        )
        self.engine.require_serving(self.serving)
        count = few_devices(whole_number(devices_per_worker, "devices_per_worker", 1), "devices_per_worker")
        self.replicas = WorkerReplicas(self, count) if count > 1 else None
        self.averages_updates = self.serving.in_rounds
        self.worker_copies = WorkerCopies(self)
        rule = server_placement(placement, self.servers, self.store.layout)
        self._served_variables = ServerVariables(self, self.worker_copies, variable_partitioner, rule)
        self.programs = ServedPrograms(self, self.serving.in_rounds)
        self.on_coordinator = CoordinatorSteps(self)
        self.coordinator: Any = None  # the coordinator of this strategy, once there is one

    has_worker_copies = is_served = moves_rows = True

    @property
    def default_device(self) -> str:
        return self.engine.chief

    @property
    def num_replicas_in_sync(self) -> int:
        return 1 if self.replicas is None else self.replicas.count

    @property
    def local_replicas(self) -> LocalReplicas | None:
        """The replicas of each worker; None where it is one."""
        return None if self.replicas is None else self.replicas.local

    @property
    def devices(self) -> list[str]:
        """The devices that compute; of workers with several, by their names on each worker."""
        return super().devices if self.replicas is None else list(self.replicas.local.devices)

    def tasks_with_tables(self) -> list[str]:
        """Every worker has a copy of its own; one that is down has none until it returns."""
        return [worker for worker in self.workers if self.engine.process(worker).alive]

    def input_context(self, worker: str) -> InputContext:
        """Which pipeline a worker builds, of those of the workers that there are now."""
        return InputContext(len(self.workers), self.worker_numbers.get(worker, 0), self.num_replicas_in_sync)

    def change_workers(self, workers: Sequence[str]) -> None:
        """These are the workers from now on, numbered anew."""
        self.workers[:] = workers
        self.steps_overlap = len(self.workers) > 1
        self.worker_numbers = {name: number for number, name in enumerate(self.workers)}

    def create(self, variable: Variable, value: Any) -> None:
        refuse_variable_of_dataset(variable)
        super().create(variable, value)

    def place(self, variable: Variable, value: Any) -> Placement[Variable]:
        """Metrics and counters (see `server_variables`) go to the chief, all else to the servers in turn."""
        placement = self._served_variables.place(variable, value)
        return placement if self.replicas is None else self.replicas.guard(placement)

    def ranges_of(self, variable: VariableHandle) -> list[ShardRange]:
        """The shards into which the partitioner splits a variable; none where it stays whole."""
        return self._served_variables.ranges_of(variable)

    def traffic(self) -> list[TrafficRecord]:
        """The shard map with its traffic: how often each shard was read and updated by steps, and the bytes that travelled for it.

        Returns:
            A record for each of `placements()`, in the same order. What a step of the chief or of a worker finds on its own task does not
            travel; updates of the chief's variables travel with the reply of their closure, and are not counted, nor are lookup tables.

        Raises:
            FailedPreconditionError: nothing travels in the engine of this cluster.

        Example:
            >>> import simdist as sd
            >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
            >>> with strategy.scope():
            ...     table = sd.Variable([[0.0], [0.0]], name="table")
            >>> coordinator = sd.ClusterCoordinator(strategy)
            >>> closure = coordinator.schedule(sd.function(lambda: table.assign_add([[1.0], [1.0]])))
            >>> coordinator.join()
            >>> [(record.task, record.updates, record.bytes_updated) for record in strategy.traffic()]
            [('ps:0', 1, 4), ('ps:1', 1, 4)]
        """
        return traffic_records(self.engine, self.placements(), self.known_variables.all(), self.store.layout)

    def hot_rows(self, table: AnyVariable | str, count: int = 10) -> list[HotRow]:
        """The rows of a table that steps have looked up most often, the hottest first; of equal ones the first.

        Args:
            table: a variable of this strategy, or its name in the shard map, also where the program does not refer to it any more. Only
                steps that look rows up count; those that read the whole table say nothing of its rows.
            count: how many at most, 1 or more; rows that no step has asked for are left out.

        Raises:
            InvalidArgumentError: a variable of another strategy, a name that none or several have, or a count below 1.
            TypeError: a count that is no integer.
            FailedPreconditionError: nothing travels in the engine of this cluster.

        Example:
            >>> import simdist as sd
            >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
            >>> with strategy.scope():
            ...     table = sd.Variable([[0.0]] * 100, name="table")
            >>> coordinator = sd.ClusterCoordinator(strategy)
            >>> step = sd.function(lambda ids: sd.embedding_lookup(table, ids))
            >>> closures = [coordinator.schedule(step, args=(ids,)) for ids in ([7, 7, 60], [7, 8, 9], [60, 7, 8])]
            >>> coordinator.join()
            >>> [(hot.row, hot.task, hot.reads) for hot in strategy.hot_rows(table, count=3)]
            [(7, 'ps:0', 3), (8, 'ps:0', 2), (60, 'ps:1', 2)]
        """
        asked = named(self.known_variables.all(), table) if isinstance(table, str) else as_variable(table)
        return hot_rows(self.engine, self.store, asked, whole_number(count, "count", 1))

    def link(self, fn: StepFunction, program: Program, worker: str) -> LinkedProgram:
        """The linked program for a task: once for all workers, again when the layout of the variables has changed.

        Args:
            fn: the step.
            program: what was traced of it.
            worker: the task; of variables of which every worker has a copy, it gets its own.
        """
        return self.programs.linked(fn, program, self.worker_copies.number(program, worker))

    def require_change_at_once(self, variable: Any) -> None:
        if self.serving.remembers:
            require_a_step(variable, f"mode={self.mode!r}" if self.serving.in_rounds else "exactly_once=True")

    def between_updates(self) -> AbstractContextManager[None]:
        if self.coordinator is None or running_closure.get() is not None:
            return nullcontext()
        return cast("AbstractContextManager[None]", self.coordinator.between_rounds())

    # -- on the coordinator ---------------------------------------------------------------------------------------

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None, options: Any = None) -> Any:
        """Run a function for the replicas of a worker; on the coordinator, outside of a scheduled function, with a warning.

        Args, Returns, Raises:
            As of every strategy.
        """
        if active_tracer() is None and running_closure.get() is None:
            self.on_coordinator.warn("strategy.run")
        return super().run(fn, args, kwargs, options)

    def eagerly(self, fn: Callable[[], T], name: str, counts: bool = True) -> T:
        """Run a function as a step of its own, once, where `run_step` does."""
        return cast(T, self.run_step(StepFunction(fn, name=name, counts=counts), (), {}))

    def run_step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Run a step that was called directly: in a plain function that was scheduled on its worker; else on the chief, with a warning.

        Raises:
            TypeError: called while a closure gets its arguments, or in one of another strategy.
        """
        if (closure := running_closure.get()) is None:
            return self.on_coordinator.run(fn, args, kwargs)
        if closure.take_step is None or closure.strategy is not self:
            return super().run_step(fn, args, kwargs)
        self.engine.require_usable(f"The step {fn.name} was called")  # before it begins: what another thread cannot wait for would count
        return closure.take_step(fn, args, kwargs)

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> DistributedFromFunction:
        """A dataset for `ClusterCoordinator.create_per_worker_dataset`: each worker reads all of it; its replicas take parts of each batch.

        Given to `model.fit`, it is the plain dataset.

        Args:
            dataset: of the batches of a worker.
            options: `InputOptions`. Closures do not wait for elements, so that a larger buffer changes nothing.

        Raises:
            TypeError: not an `sd.Dataset`, or `options` are something else.
            InvalidArgumentError: the pipeline is to run on a device.
            NotImplementedError: a pipeline per replica, which needs `distribute_datasets_from_function`.
        """
        require_dataset(dataset)
        return input_of_workers(self.num_replicas_in_sync, lambda _: dataset, options, dataset)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Any], options: InputOptions | None = None
    ) -> DistributedFromFunction:
        """Datasets that each worker makes by itself from an `InputContext`; of several replicas each takes batches as they are.

        Args:
            dataset_fn: called by each worker, when it first needs its dataset. Its context says which of the workers it is. In TensorFlow
                each is the only one: let the function make ``sd.InputContext(1, 0, context.num_replicas_in_sync)`` for that.
            options: `InputOptions`: whether the replicas of a worker take batches of one pipeline in turn, or each has its own.

        Raises:
            As of every strategy.
        """
        super().distribute_datasets_from_function(dataset_fn, options)
        return input_of_workers(self.num_replicas_in_sync, dataset_fn, options)

    experimental_distribute_dataset = distribute_dataset
    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def cache_variable_reads(self) -> AbstractContextManager[None]:
        """Inside, each variable of this strategy is read once; later reads give the same value, whatever is assigned meanwhile.

        Raises:
            InvalidArgumentError: opened inside another one.

        Example:
            >>> import simdist as sd
            >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
            >>> with strategy.scope():
            ...     v = sd.Variable(1.0)
            >>> with strategy.cache_variable_reads():
            ...     before = float(v)
            ...     v.assign(2.0)
            ...     print(before, float(v))
            1.0 1.0
            >>> float(v)
            2.0
        """
        return reading_once(self.store)
