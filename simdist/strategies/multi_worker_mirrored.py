"""`MultiWorkerMirroredStrategy`: the workers of a cluster compute each step together.

It is driven in one of two ways. From a notebook, one strategy drives the replicas of all workers. Or every worker has a main
of its own (``cluster.launch(main)``), makes the strategy in it, finds its place from TF_CONFIG, and meets the others in every
exchange; then each has variables of its own, which begin as those of the chief.

Source: Dean et al., Large Scale Distributed Deep Networks, 2012, and Goyal et al., Accurate, Large Minibatch SGD, 2017, for
synchronous training over several machines.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp

from simdist.arguments import whole_number
from simdist.cluster import ClusterResolver, ClusterSpec, TFConfigClusterResolver
from simdist.cluster.roles import id_in_cluster, is_chief
from simdist.errors import InvalidArgumentError, TimedOutError, UnavailableError
from simdist.process_state import active_context
from simdist.program.function import BoundCall, StepFunction
from simdist.program.operations import Program
from simdist.program.per_replica import PerReplica, ReplicaLocal
from simdist.program.tracing import active_tracer, is_under_a_trace
from simdist.runtime.cluster import Cluster
from simdist.runtime.replicas import Member
from simdist.strategies import context
from simdist.strategies.communication import CommunicationOptions
from simdist.strategies.elastic import Elastic
from simdist.strategies.local_steps import LocalSteps
from simdist.strategies.reduction import ReduceOp, reduce_op_of
from simdist.strategies.synchronous import StepOutcome, SynchronousStrategy
from simdist.variables.aggregation import VariableSynchronization

__all__ = ["MultiWorkerMirroredStrategy"]

# So often a step of survivors is taken again because messages of it were lost.
MAX_TIME_OUTS = 5


class MultiWorkerMirroredStrategy(SynchronousStrategy):
    """Synchronous training on several workers.

    Args:
        cluster_or_resolver: a `Cluster`, to drive all its workers; in a main that was launched, a resolver, or None to find the
            task's place from TF_CONFIG. Without either: one worker, this machine.
        communication_options: `CommunicationOptions`.
        backup_workers: how many replicas each step does not wait for: the gradients of the slowest are dropped, and those of the others
            stand for them. Only where one notebook drives all workers. Default 0.
        sync_every: steps that each replica takes on its own before they bring their variables together; default 1, in each step.
        on_failure: "raise", or "continue": when a worker dies, the step is taken again by the others, and a worker that comes back
            joins them. Only where one notebook drives all workers.
        outer_optimizer: what moves the shared variables then (DiLoCo); None: to the average.
        devices_per_worker: how many devices of each worker compute; default 1, the worker's own.

    Raises:
        InvalidArgumentError: another type, a resolver that does not know which task this is, a task that does not train, a cluster
            without workers, or options that do not go together.
        TypeError: a number that is no whole number.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}))
        >>> strategy.num_replicas_in_sync, strategy.extended.worker_devices
        (3, ('worker:0', 'worker:1', 'worker:2'))
    """

    def __init__(
        self,
        cluster_or_resolver: Any = None,
        communication_options: CommunicationOptions | None = None,
        *,
        backup_workers: int = 0,
        sync_every: int = 1,
        outer_optimizer: Any = None,
        on_failure: str = "raise",
        devices_per_worker: int = 1,
    ) -> None:
        if not isinstance(cast(Any, communication_options), (CommunicationOptions, type(None))):
            raise InvalidArgumentError(f"communication_options must be sd.CommunicationOptions(...); got {communication_options!r}.")
        self.communicates = False  # whether other mains drive replicas of the same group
        self.devices_per_worker = whole_number(devices_per_worker, "devices_per_worker", 1)
        self.cluster_resolver, cluster = _found(cluster_or_resolver)
        self.launched = cluster is None and active_context().locals.get("here") is not None
        self.backup_workers = backup_workers = whole_number(backup_workers, "backup_workers", 0)
        self.local_steps = LocalSteps(self, sync_every, outer_optimizer)
        self.local_updates = self.local_steps.every > 1
        wanted = [name for name, said in (communication_options or CommunicationOptions()).of_gradients().items() if said]
        if self.local_updates and wanted:
            raise InvalidArgumentError(
                f"{', '.join(wanted)} of communication_options concern gradients, and with sync_every={sync_every} variables are exchanged "
                "instead. Leave one of them out."
            )
        self._broadcast = 0
        super().__init__(cluster, communication_options)
        self._check_backups(backup_workers)
        self.elastic = self._elastic(on_failure)
        self.is_elastic = self.elastic is not None
        self.read_across = self._read_across if self.launched and self.num_replicas_in_sync > 1 else None
        self.communicates = self.launched and self.num_replicas_in_sync > 1
        if self.communicates:
            assert self.task_name is not None
            self.group = self.engine.join_group(self.communication, self.members, self.task_name)

    def _check_backups(self, backup_workers: int) -> None:
        if not 0 <= backup_workers < self.num_replicas_in_sync:
            raise InvalidArgumentError(
                f"backup_workers={backup_workers} must be 0 or more, and fewer than the {self.num_replicas_in_sync} replicas: some "
                "have to be waited for."
            )
        if backup_workers and self.local_updates:
            raise InvalidArgumentError(
                "backup_workers gives up gradients of the slowest in each step, and with sync_every no gradients are exchanged: an average "
                "of variables needs those of all replicas. Leave one of them out."
            )
        if backup_workers and self.launched:
            raise InvalidArgumentError(
                "backup_workers needs one program that drives all workers, which can give up what the slowest are computing. Make the "
                "strategy in the notebook: MultiWorkerMirroredStrategy(cluster, backup_workers=1)."
            )

    def _elastic(self, on_failure: str) -> Elastic | None:
        if on_failure not in ("raise", "continue"):
            raise InvalidArgumentError(f"on_failure={on_failure!r} is not known; use 'raise' or 'continue'.")
        if on_failure == "raise":
            return None
        if self.launched or self.local_updates:
            raise InvalidArgumentError(
                "on_failure='continue' needs one program that drives all workers, and sync_every=1. Make the strategy in the notebook, or "
                "launch the mains with restart='always'."
            )
        return Elastic(self)

    # -- who takes part -------------------------------------------------------------------------------------------

    def replica_devices(self) -> list[str]:
        workers = _workers(self._spec()) or [self.default_device]
        if self.devices_per_worker == 1:
            return workers
        return [f"{worker}/gpu:{device}" for worker in workers for device in range(self.devices_per_worker)]

    def _spec(self) -> ClusterSpec:
        return self.cluster_resolver.cluster_spec() if self.launched else self.cluster.spec

    @property
    def local_members(self) -> list[Member]:
        if not self.launched:
            return self.members
        return [member for member in self.members if member.task == self.task_name] or self.members

    @property
    def worker_index(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The place of this main's worker among them; 0 where one notebook drives all."""
        if not self.launched or not self._spec():
            return 0
        return id_in_cluster(self._spec(), self.cluster_resolver.task_type, self.cluster_resolver.task_id)

    @property
    def is_chief(self) -> bool:
        if not self.launched or not self._spec():
            return True
        return is_chief(self._spec(), self.cluster_resolver.task_type, self.cluster_resolver.task_id)

    def observe(self, look: Callable[[], Any]) -> Any:
        return self.eagerly(look, "look") if self.communicates else look()

    def _read_across(self, variable: Any) -> Any:
        """Every worker has to ask: an all-reduce brings together what each has for itself."""
        if is_under_a_trace():
            # Keras works out shapes: nobody will see this number, and the others do not come.
            return self.store.cell_value(variable, variable.placement.cells[0])
        return self.eagerly(lambda: variable.value, f"read {variable.name}")

    # -- across the workers ---------------------------------------------------------------------------------------

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | Sequence[int] | None) -> Any:
        """As in `Strategy.reduce`; in a main of its own, over the replicas of all workers, so every worker has to call it.

        There a plain value is this worker's, and the workers' values are combined.
        """
        if not self.communicates:
            return super().reduce(reduce_op, value, axis)
        context.require_cross_replica("strategy.reduce")
        op = reduce_op_of(reduce_op)
        if active_tracer() is None:
            return self.eagerly(lambda: self.reduce(op, value, axis), "reduce")
        return super().reduce(op, self._as_own(op, self._each(value)), axis)

    def gather(self, value: Any, axis: int) -> Any:
        """As in `Strategy.gather`; in a main of its own, from all workers, so every worker has to call it."""
        if not self.communicates or active_tracer() is not None:
            return super().gather(value, axis)
        context.require_cross_replica("strategy.gather")
        return jax.tree_util.tree_map(lambda leaf: self._gathered(leaf, axis), value, is_leaf=lambda x: isinstance(x, PerReplica))

    def _gathered(self, value: Any, axis: int) -> Any:
        """First the lengths, then the values, filled up to the longest: what travels must have one shape."""
        own = super().gather(value, axis)
        device = axis % own.ndim
        lengths = [int(part[0]) for part in self._from_all(jnp.asarray([own.shape[device]]))]
        fill = [(0, max(lengths) - own.shape[device] if dim == device else 0) for dim in range(own.ndim)]
        parts = self._from_all(jnp.pad(own, fill))
        return jnp.concatenate([jax.lax.slice_in_dim(part, 0, n, axis=device) for part, n in zip(parts, lengths, strict=True)], axis=device)

    def _from_all(self, value: Any) -> list[Any]:
        """One value of each worker, in their order."""

        def collective() -> list[Any]:
            tracer = active_tracer()
            assert tracer is not None
            return [part[0] for part in tracer.collective("all_gather", [value])]

        return self.eagerly(collective, "gather")[:: len(self.local_members)]

    def _as_own(self, op: ReduceOp, value: Any) -> Any:
        """A structure with this replica's own values; of a sum of what all devices of a worker share, the first one's counts."""
        tracer = active_tracer()
        assert tracer is not None

        def own(leaf: Any) -> Any:
            if isinstance(leaf, ReplicaLocal):
                return leaf
            if isinstance(leaf, PerReplica):
                return ReplicaLocal(tracer, leaf.values[self.local_rank_of(tracer.rank)])
            counts = op is ReduceOp.MEAN or len(self.local_members) == 1 or self.local_rank_of(tracer.rank) == 0
            return ReplicaLocal(tracer, jnp.asarray(leaf) * (1 if counts else 0))

        return jax.tree_util.tree_map(own, value, is_leaf=lambda x: isinstance(x, PerReplica))

    # -- steps ----------------------------------------------------------------------------------------------------

    def step(self, fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> StepOutcome:
        if self.communicates and self._broadcast < len(self.variables):
            self._share_initial_values()
        if self.elastic is None:
            return super().step(fn, args, kwargs)
        iterators, time_outs = self.elastic.positions([*args, *kwargs.values()]), 0
        while True:
            try:
                self.elastic.settle(iterators)
                return super().step(fn, args, kwargs)
            except UnavailableError as error:
                # Where messages between members are lost nobody is gone: the way may open again, but not for ever is tried.
                time_outs += isinstance(error, TimedOutError)
                if not self.elastic.has_lost_somebody() and not (isinstance(error, TimedOutError) and time_outs <= MAX_TIME_OUTS):
                    raise
                self.elastic.rewind(iterators)

    def _run(self, fn: StepFunction, calls: Sequence[BoundCall], programs: Sequence[Program]) -> StepOutcome:
        self.local_steps.before(programs)
        outcome = super()._run(fn, calls, programs)
        self.local_steps.after(programs)
        return outcome

    def _share_initial_values(self) -> None:
        """Variables that were made since the last step begin as the chief has them."""
        first, self._broadcast = self._broadcast, len(self.variables)
        new = [v for v in self.variables[first:] if v.synchronization is not VariableSynchronization.ON_READ]

        def share() -> None:
            tracer = active_tracer()
            assert tracer is not None
            values = tracer.collective("broadcast", [tracer.read(variable) for variable in new], label="variables")
            for variable, value in zip(new, values, strict=True):
                tracer.update("assign", [variable], [value])

        if new:
            self.eagerly(share, "share initial values")


def _found(given: Any) -> tuple[ClusterResolver, Cluster | None]:
    """The resolver, and the cluster where all its workers are driven from here."""
    cluster = getattr(given, "cluster", given)
    if isinstance(cluster, Cluster):
        if not _workers(cluster.spec):
            raise InvalidArgumentError(f"{cluster.spec!r} has no task of the job worker or chief that could train. Give it at least one.")
        return cluster.resolver, cluster
    if given is not None and not isinstance(given, ClusterResolver):
        raise InvalidArgumentError(
            f"MultiWorkerMirroredStrategy takes an sd.Cluster, or in a launched main a cluster resolver; got {type(given).__name__}."
        )
    resolver = given if given is not None else TFConfigClusterResolver()
    spec = resolver.cluster_spec()
    if len(_workers(spec)) > 1 and (resolver.task_type is None or resolver.task_id is None):
        raise InvalidArgumentError(
            f"The resolver has {len(_workers(spec))} workers but does not say which of them this is. Give it task_type and task_id, or "
            "pass the sd.Cluster itself to drive all workers from here."
        )
    if resolver.task_type is not None and resolver.task_type not in ("chief", "worker"):
        raise InvalidArgumentError(f"A task of type {resolver.task_type!r} does not train; make the strategy on chief and workers only.")
    return resolver, None


def _workers(spec: ClusterSpec) -> list[str]:
    """The tasks that train: the chief first."""
    return [f"{job}:{index}" for job in ("chief", "worker") if job in spec.jobs for index in spec.task_indices(job)]
