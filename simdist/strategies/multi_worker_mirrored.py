"""`MultiWorkerMirroredStrategy`: the workers of a cluster compute each step together.

It is driven in one of two ways. From a notebook, one strategy drives the replicas of all workers. Or every worker has a main
of its own (``cluster.launch(main)``), makes the strategy in it, finds its task in TF_CONFIG, and takes part in every
collective with the others; then each has variables of its own, which begin as those of the chief.

Source: Dean et al., Large Scale Distributed Deep Networks, 2012, and Goyal et al., Accurate, Large Minibatch SGD, 2017, for
synchronous training over several machines.

Taught in lesson 04.
"""

from __future__ import annotations

from typing import cast

from simdist.arguments import known_word, whole_number
from simdist.cluster import ClusterResolver, ClusterSpec, TFConfigClusterResolver, spec_of
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.runtime.cluster import Cluster
from simdist.runtime.launched_main import launched_main
from simdist.strategies.communication import CommunicationImplementation, CommunicationOptions
from simdist.strategies.devices import few_devices
from simdist.strategies.given_cluster import cluster_behind
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.strategies.synchronous.elastic import Elastic
from simdist.strategies.synchronous.local_steps import LocalSteps, OuterOptimizer
from simdist.strategies.synchronous.policies import EveryReplica, StepPolicy, WithBackups
from simdist.strategies.synchronous.replicas import DrivenReplicas, LaunchedReplicas, Replicas

__all__ = ["MultiWorkerMirroredStrategy"]

MOST_REPLICAS = 1_000_000  # as many as a cluster has tasks


class MultiWorkerMirroredStrategy(SynchronousStrategy):
    """Synchronous training on several workers.

    Args:
        cluster_resolver: a `Cluster`, to drive all its workers; in a main that was launched, a resolver, or None to find the
            task's place from TF_CONFIG. Without either: one worker, this machine.
        communication_options: `CommunicationOptions`.
        backup_workers: how many replicas each step does not wait for: the gradients of the slowest are dropped, and those of the others
            stand for them, as in means. What else the dropped ones had is missing: a sum over the replicas is that of the others, and a
            result has the others' values only. They begin the next step with the others: how the new values come to them takes no time
            and no bytes, and what they had computed is in no span. Only where one notebook drives all workers. Default 0.
        sync_every: steps that each replica takes on its own before they bring their variables together; default 1, in each step.
            Between two averages the replicas differ: reads from outside of a step, `evaluate` and `predict` take the average, and a step of
            your own each replica's values. A launched main evaluates and predicts with the average of its own replicas; what it reads
            is the average of all, and so is what `fit` validates. A loop of your own divides its loss by the global batch, as with 1: what
            a replica has of the gradients counts times the number of replicas. ``skip_gradients_aggregation=True`` takes it as it is.
        on_failure: "raise", or "continue": when a worker dies, the step is taken again by the others, and a worker that comes back
            joins them. Only where one notebook drives all workers, and steps take their batches from iterators, which can go back. What
            the dead one alone had added to metrics is lost, and the log `simdist` says so. A checkpoint that is being saved when a worker
            dies is not there: save again.
        outer_optimizer: what moves the shared variables then (DiLoCo); None: to the average.
        devices_per_worker: how many devices of each worker compute; default 1, the worker's own.

    Raises:
        InvalidArgumentError: another type, a resolver that does not know which task this is, a task that does not train, a cluster
            without workers, or options that do not go together.
        FailedPreconditionError: a resolver of several workers, outside of a main that `Cluster.launch` runs.
        TypeError: a number that is no whole number.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}))
        >>> strategy.num_replicas_in_sync, strategy.extended.worker_devices
        (3, ('worker:0', 'worker:1', 'worker:2'))
    """

    def __init__(
        self,
        cluster_resolver: Cluster | ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
        *,
        backup_workers: int = 0,
        sync_every: int = 1,
        outer_optimizer: OuterOptimizer = None,
        on_failure: str = "raise",
        devices_per_worker: int = 1,
    ) -> None:
        if not isinstance(cast(object, communication_options), (CommunicationOptions, type(None))):
            raise InvalidArgumentError(f"communication_options must be sd.CommunicationOptions(...); got {communication_options!r}.")
        self.devices_per_worker = few_devices(whole_number(devices_per_worker, "devices_per_worker", 1), "devices_per_worker")
        self.cluster_resolver, cluster = _found(cluster_resolver)
        policy = _policy(backup_workers, sync_every, outer_optimizer, on_failure)
        super().__init__(cluster, communication_options, policy, _replicas(self.cluster_resolver, cluster))

    def replica_devices(self) -> list[str]:
        spec = self.cluster_resolver.cluster_spec() if self.launched else self.cluster.spec
        workers = _workers(spec) or [self.default_device]
        if self.devices_per_worker == 1:
            return workers
        if len(workers) * self.devices_per_worker > MOST_REPLICAS:
            raise InvalidArgumentError(
                f"devices_per_worker={self.devices_per_worker} on each of {len(workers)} workers are more than {MOST_REPLICAS:,} replicas, "
                "and each takes memory of this machine. Give fewer."
            )
        return [f"{worker}/gpu:{device}" for worker in workers for device in range(self.devices_per_worker)]


def _policy(backup_workers: int, sync_every: int, outer_optimizer: OuterOptimizer, on_failure: str) -> StepPolicy:
    """The policy that the arguments describe; whether the replicas can follow it is its own question."""
    backups = whole_number(backup_workers, "backup_workers", 0)
    on_failure = known_word(on_failure, "on_failure", ("raise", "continue"))
    policy: StepPolicy = EveryReplica()
    if whole_number(sync_every, "sync_every", 1) > 1 or outer_optimizer is not None:
        policy = LocalSteps(sync_every, outer_optimizer)
    if backups:
        policy = WithBackups(backups, policy)
    return Elastic(policy) if on_failure == "continue" else policy


def _replicas(resolver: ClusterResolver, cluster: Cluster | None) -> Replicas:
    """Those of a worker that has a main of its own, or of all workers."""
    main = launched_main.get()
    return DrivenReplicas() if cluster is not None or main is None else LaunchedReplicas(resolver, main.task)


def _found(given: object) -> tuple[ClusterResolver, Cluster | None]:
    """The resolver, and the cluster where all its workers are driven from here."""
    cluster = cluster_behind(given)
    if isinstance(cluster, Cluster):
        if not _workers(cluster.spec):
            raise InvalidArgumentError(f"{cluster.spec!r} has no task of the job worker or chief that could train. Give it at least one.")
        return cluster.resolver, cluster
    if isinstance(given, CommunicationImplementation):
        raise InvalidArgumentError(
            f"MultiWorkerMirroredStrategy takes the implementation in its options: "
            f"communication_options=sd.CommunicationOptions(implementation=sd.{given})."
        )
    if given is not None and not isinstance(given, ClusterResolver):
        raise InvalidArgumentError(
            f"MultiWorkerMirroredStrategy takes an sd.Cluster, or in a launched main a cluster resolver; got {type(given).__name__}."
        )
    resolver = given if given is not None else TFConfigClusterResolver()
    spec = spec_of(resolver)
    if len(_workers(spec)) > 1 and (resolver.task_type is None or resolver.task_id is None):
        raise InvalidArgumentError(
            f"The resolver has {len(_workers(spec))} workers but does not say which of them this is. Give it task_type and task_id, or "
            "pass the sd.Cluster itself to drive all workers from here."
        )
    if resolver.task_type is not None and resolver.task_type not in ("chief", "worker"):
        raise InvalidArgumentError(f"A task of type {resolver.task_type!r} does not train; make the strategy on chief and workers only.")
    if len(_workers(spec)) > 1 and launched_main.get() is None:
        raise FailedPreconditionError(
            f"The resolver has {len(_workers(spec))} workers, but no other worker would take part: this program is not a main that "
            "cluster.launch started. Pass the sd.Cluster itself to drive all workers from here, or start a main for each with "
            "cluster.launch(main)."
        )
    return resolver, None


def _workers(spec: ClusterSpec) -> list[str]:
    """The tasks that train: the chief first."""
    return [f"{job}:{index}" for job in ("chief", "worker") if job in spec.jobs for index in spec.task_indices(job)]
