"""`Cluster`: a whole training cluster in this process.

Taught in lesson 00.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from simdist import debugging
from simdist import hardware as models
from simdist.arguments import known_word, require_arguments, require_function, shown, whole_number
from simdist.cluster import ClusterResolver, ClusterSpec, SimpleClusterResolver
from simdist.cluster.spec import require_different_addresses
from simdist.errors import FailedPreconditionError, InvalidArgumentError, did_you_mean
from simdist.faults.schedule import Faults
from simdist.hardware import Device, DiskModel, Network, device_for
from simdist.ledger.ledger import NUMERICS
from simdist.process_state import TaskContext, TaskLocal
from simdist.runtime.base import Engine
from simdist.runtime.collector import spare_by_default
from simdist.runtime.in_process import InProcessEngine
from simdist.runtime.launched_main import launched_main
from simdist.runtime.simulated.effects import SimulatedEffects
from simdist.runtime.simulated.engine import SimulatedEngine
from simdist.runtime.simulated.world import World
from simdist.runtime.unfinished import warn_of_unfinished
from simdist.runtime.work import LaunchedRun, running_closure
from simdist.trace import Trace
from simdist.uncopied import Uncopied

__all__ = ["Cluster", "begin_with", "for_others", "newest_cluster"]

ENGINES = ("simulated", "in_process")
SIMULATED = "Another engine has it: sd.Cluster(..., engine='simulated')."

# Those whose `with` blocks the task has open; and in the first place the one that it has made last.
_clusters: TaskLocal[list[weakref.ReferenceType[Cluster]]] = TaskLocal(list)


def newest_cluster() -> Cluster | None:
    """The cluster of the innermost ``with cluster:`` that the task which runs has open, or else the one that it has made last."""
    clusters = _clusters.get()
    return clusters[-1]() if clusters else None


@contextmanager
def for_others() -> Iterator[None]:
    """Inside, clusters are made that the program does not use itself: none of them is its newest one."""
    with _clusters.replaced([]):
        yield


def begin_with(cluster: Cluster, context: TaskContext) -> None:
    """Let a cluster be the newest one in a context in which none was made yet."""
    _clusters.set([weakref.ref(cluster)], context)


class _ResolverOfCluster(SimpleClusterResolver):
    """A resolver that also knows the simulated cluster itself."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.spec, rpc_layer="grpc")
        self.cluster = cluster


class Cluster(Uncopied, instead="Take cluster.trace, which can, or cluster.fresh() for a new cluster of the same kind."):
    """A cluster: tasks, a network and a clock, simulated and deterministic, with real numbers. Or the tasks alone, without time.

    Args:
        spec: jobs and their tasks: ``{"worker": 3, "ps": 2}``, lists of addresses, a `ClusterSpec`, or a resolver that knows one. The
            notebook or script itself is the chief: ``chief:0``, whether the spec names it or not.
        seed: of all random streams, a whole number; default 0.
        hardware: a `Device` for all tasks, or a mapping from job to `Device`; default a laptop's processor.
        network: bandwidth and latency; default 10-gigabit Ethernet.
        numerics: "deferred" (numbers are computed late and fast; the default), "eager" (at once; the same bits), "replay" or
            "loop" (late, by that plan alone; the same bits), "vmap" (late, in batches for accelerators; nearly the same
            numbers, class E2), "shard_map" (late, what the replicas of a step compute side by side on several JAX devices;
            class E2), or "off" (timing only). Under `sd.debug` "deferred" becomes "eager".
        jax_devices: those of numerics="shard_map", of one platform; default all of ``jax.local_devices()``.
        engine: "simulated" (the default): everything takes virtual time, and may fail. "in_process": everything happens at
            once, inside the call, with the same bits; no time, faults, sessions, traces of work, backup workers, rounds of
            parameter servers or launched mains, and no hardware. Of the network only the figures count, by which strategies
            choose their collectives.
        isolated: with engine="in_process": give each task a memory of its own, so that programs, kernels, arrays and replies travel as
            bytes, as they would between machines. Plain Python functions are refused then, because they are no data.
        disks: a `DiskModel` for the disk of every task, or a mapping from job to `DiskModel`; default ``hardware.nvme``.

    Raises:
        InvalidArgumentError: an unknown word for numerics or engine, a spec that makes no sense, two tasks with one address, hardware or
            disks for a job that does not exist, or JAX devices that cannot work together.
        FailedPreconditionError: hardware, numerics, JAX devices, disks or isolation that the engine could not honour.
        ModuleNotFoundError: isolated=True without the package flatbuffers.
        TypeError: a seed that is no whole number, isolated= that is no bool, or hardware, disks or a network of another type.

    Example:
        >>> with Cluster({"worker": 3, "ps": 2}, seed=0) as cluster:
        ...     print(cluster.tasks)
        ['chief:0', 'worker:0', 'worker:1', 'worker:2', 'ps:0', 'ps:1']

        The same program runs without time:

        >>> import simdist as sd
        >>> cluster = Cluster({"worker": 3}, engine="in_process")
        >>> strategy = sd.MultiWorkerMirroredStrategy(cluster)
        >>> float(strategy.reduce("SUM", strategy.run(lambda: sd.get_replica_context().replica_id_in_sync_group + 1), axis=None))
        6.0
        >>> cluster.now, cluster
        (0.0, Cluster({'worker': 3}, seed=0, engine='in_process'))
    """

    def __new__(cls, *_args: Any, **_options: Any) -> Cluster:
        spare_by_default()  # before there is anything of a cluster
        return super().__new__(cls)

    def __init__(
        self,
        spec: ClusterSpec | ClusterResolver | Mapping[str, Any],
        seed: int = 0,
        hardware: Device | Mapping[str, Device] | None = None,
        network: Network | None = None,
        numerics: str = "deferred",
        jax_devices: Sequence[Any] | None = None,
        engine: str = "simulated",
        isolated: bool = False,
        disks: DiskModel | Mapping[str, DiskModel] | None = None,
    ) -> None:
        engine = known_word(engine, "engine", ENGINES)
        numerics = known_word(numerics, "numerics", NUMERICS)
        if engine == "in_process":
            _require_no_effect(numerics, hardware=hardware, jax_devices=jax_devices, disks=disks)
        self.isolated = _checked_isolation(isolated, engine)
        given = spec.cluster_spec() if isinstance(spec, ClusterResolver) else spec
        self.spec = given if isinstance(given, ClusterSpec) else ClusterSpec(given)
        require_different_addresses(self.spec)
        self.seed = whole_number(seed, "seed")
        self.hardware = _checked_hardware(hardware, self.spec)
        self.network = network if network is not None else models.ethernet_10g
        if not isinstance(cast("object", self.network), Network):
            raise TypeError(f"network is {network!r}; expected a Network, for example simdist.hardware.ethernet_10g")
        self.jax_devices = jax_devices
        self.disks = _checked_disks(disks, self.spec)
        names = [f"{job}:{index}" for job in self.spec.jobs for index in self.spec.task_indices(job)]
        # The chief stands first in every picture, wherever the spec has it.
        names = list(dict.fromkeys(["chief:0", *names]))
        self.engine: Engine = self._in_process(names) if engine == "in_process" else self._simulated(names, numerics)
        self.numerics = self.engine.numerics
        self._kind = engine
        self._faults = Faults(SimulatedEffects(self.world, self)) if engine == "simulated" else None
        self.resolver = _ResolverOfCluster(self)
        self._directories = self.engine.directories
        self._closed = False
        _clusters.get()[:1] = [weakref.ref(self)]

    def _in_process(self, names: Sequence[str]) -> Engine:
        if not self.isolated:
            return InProcessEngine(names, self.network, self.seed)
        # Few need it, and its messages take as long to import as the rest of the engine.
        from simdist.runtime.in_process.isolated import IsolatedEngine

        return IsolatedEngine(names, self.network, self.seed)

    def _simulated(self, names: Sequence[str], numerics: str) -> SimulatedEngine:
        devices = {name: device_for(self.hardware, name.split(":")[0], models.laptop_cpu) for name in names}
        numerics = "eager" if numerics == "deferred" and debugging.is_on() else numerics
        disks = self.disks if isinstance(self.disks, Mapping) else dict.fromkeys(_jobs_of(self.spec), self.disks)
        return SimulatedEngine(devices, self.network, self.seed, numerics, self.jax_devices, disks)

    @property
    def world(self) -> World:
        """The simulated machines behind the wall, for code that observes or breaks them.

        Raises:
            FailedPreconditionError: the engine has none.
        """
        if not isinstance(self.engine, SimulatedEngine):
            raise FailedPreconditionError("cluster.world is the world of simulated machines, and this cluster has none. " + SIMULATED)
        return self.engine.world

    @property
    def faults(self) -> Faults:
        """The fault plan of this cluster.

        Raises:
            FailedPreconditionError: nothing can break where everything happens at once.
        """
        if self._faults is None:
            raise FailedPreconditionError("Faults need machines and a time at which they fail, and this cluster has neither. " + SIMULATED)
        return self._faults

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.engine.now

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks, the chief first."""
        return list(self.engine.task_names)

    @property
    def trace(self) -> Trace:
        """The event log up to now."""
        return self.engine.trace

    def fresh(self, seed: int | None = None) -> Cluster:
        """A new cluster of the same kind, at time zero, without faults."""
        seed = self.seed if seed is None else seed
        if self._kind == "in_process":
            return Cluster(self.spec, seed, network=self.network, engine="in_process", isolated=self.isolated)
        return Cluster(self.spec, seed, self.hardware, self.network, self.numerics, self.jax_devices, disks=self.disks)

    def directory(self, name: str, task: str | None = None) -> str:
        """A directory on a disk of this cluster; it is deleted when the cluster is closed.

        Args:
            name: a relative path, such as "backup" or "logs/worker-0".
            task: on whose disk it lies: what a checkpoint or a model writes there takes the time of that disk, and what befalls the
                disk befalls it, whichever task's program saves. When the disk is lost with its machine, the directory is empty. Default
                None: on storage that all tasks share, and that is never lost; the disk of the task that saves takes the time.

        Raises:
            InvalidArgumentError: the name is empty or leads out of the disk, or there is no such task.
            TypeError: it is no text.
        """
        if task is not None:
            self.engine.process(task)  # refuses one that is not there
            if isinstance(self.engine, SimulatedEngine) and not self._directories.has(task):
                self.world.disk(task).lost.append(partial(self._directories.empty, task))
        return self._directories.directory(name, task)

    def launch(
        self, main: Callable[..., Any], job: str | Sequence[str] = "worker", restart: str = "never", args: Sequence[Any] = ()
    ) -> LaunchedRun:
        """Start a main on every task of a job, as on machines of a real cluster.

        Args:
            main: runs once for each task, with TF_CONFIG set for it; may block.
            job: which tasks; default "worker". Several jobs, such as ``["chief", "worker", "ps"]``: one program for all roles.
            restart: "never", or "always": a main whose task crashed, or that failed with `UnavailableError` or `AbortedError`, or with
                `DeadlineExceededError` because a fault held up the others, starts again. After an error it does so 1, 2, 4, ... and at
                most 32 s later, and at most 20 times in all.
            args: arguments of `main`.

        Returns:
            A `LaunchedRun`, whose `join` waits for all of them. Those in `Server.join` end with the last one that is not; evaluators
            are waited for only if no other job is launched with them.

        Raises:
            InvalidArgumentError: an unknown job, one without a task, or another word for restart.
            FailedPreconditionError: the cluster is closed, or its engine cannot run tasks side by side.
        """
        self.engine.require_usable("launch was called")
        require_function(main, "launch")
        require_arguments(args, None, "launch", orders_keys=False)
        restart = known_word(restart, "restart", ("never", "always"))
        jobs = _jobs(job)
        tasks = [f"{job}:{index}" for job in jobs for index in self.spec.task_indices(job)]
        if not tasks:
            words = ", ".join(map(repr, jobs))
            raise InvalidArgumentError(f"launch was called for {words}, and there is no such task in {self}. Give the cluster one.")
        return self.engine.launch(self, lambda: main(*args), tasks, self._environ, restart)

    def _environ(self, task: str) -> dict[str, str]:
        job, index = task.split(":")
        config = {"cluster": self.spec.as_dict(), "task": {"type": job, "index": int(index)}}
        return {"TF_CONFIG": json.dumps(config)}

    def close(self) -> None:
        """End all tasks; warn of faults that never fired, and of checkpoints that are not written yet.

        Raises:
            FailedPreconditionError: the caller runs on one of these tasks.
        """
        if self._closed:
            return
        self._require_outside()
        self._closed = True
        warn_of_unfinished(self.engine.unfinished)
        self.engine.close()
        self._directories.close()
        if self._faults is not None:
            self._faults.warn_about_unfired()

    def _require_outside(self) -> None:
        closure, main = running_closure.get(), launched_main.get()
        if closure is not None and closure.engine is self.engine:
            where = f"closure {closure.number} on {closure.worker}"
        elif main is not None and main.cluster is self:
            where = f"the main of {main.task}"
        else:
            return
        raise FailedPreconditionError(
            f"cluster.close() was called in {where}, and would end the very task that runs it. Return from it, and close the cluster where "
            "it was made, after join()."
        )

    def __enter__(self) -> Cluster:
        if self._closed:
            raise FailedPreconditionError("This cluster is closed. Make another with cluster.fresh().")
        _clusters.get().append(weakref.ref(self))
        return self

    def __exit__(self, *_: object) -> None:
        clusters = _clusters.get()
        clusters[1:] = [entered for entered in clusters[1:] if entered() not in (self, None)]
        self.close()

    def __repr__(self) -> str:
        jobs = ", ".join(f"{job!r}: {self.spec.num_tasks(job)}" for job in self.spec.jobs)
        kind = "engine='in_process', isolated=True" if self.isolated else "engine='in_process'"
        state = kind if self._kind == "in_process" else f"now={self.now:.6f} s"
        return f"Cluster({{{jobs}}}, seed={self.seed}, {state})"


def _jobs(job: object) -> list[str]:
    """The jobs of an argument that is one name, or several."""
    names = [job] if isinstance(job, str) else cast("list[object]", list(job)) if isinstance(job, (list, tuple)) else None
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f'job is {job!r}; expected the name of a job, such as "worker", or a list of names')
    return cast("list[str]", list(dict.fromkeys(names)))


def _require_no_effect(numerics: str, **figures: Any) -> None:
    """An engine without time computes eagerly, and its devices have no figures."""
    if numerics not in ("deferred", "eager"):
        raise FailedPreconditionError(
            f"numerics={numerics!r} says when and where to compute; here it is at once. Leave it out. " + SIMULATED
        )
    for name, value in figures.items():
        if value is not None:
            raise FailedPreconditionError(f"{name}= would have no effect where everything happens at once. Leave it out. " + SIMULATED)


def _checked_isolation(isolated: bool, engine: str) -> bool:
    if not isinstance(cast("object", isolated), bool):
        raise TypeError(f"isolated is {isolated!r}; expected True or False")
    if isolated and engine != "in_process":
        raise FailedPreconditionError(
            f"isolated=True sends bytes between tasks, and engine={engine!r} only counts them. Leave it out, or take the engine that has "
            "it: sd.Cluster(..., engine='in_process', isolated=True)."
        )
    return isolated


def _jobs_of(spec: ClusterSpec) -> list[str]:
    """Every cluster has a chief."""
    return [*spec.jobs, *(["chief"] if "chief" not in spec else [])]


def _require_jobs(what: str, by_job: Mapping[str, object], spec: ClusterSpec) -> None:
    """Refuse figures for a job that the cluster has not."""
    jobs = _jobs_of(spec)
    for job in by_job:
        if job not in jobs:
            raise InvalidArgumentError(f"{what} names the job {job!r}, which the cluster has not. {did_you_mean(str(job), jobs)}")


def _checked_hardware(hardware: Device | Mapping[str, Device] | None, spec: ClusterSpec) -> Device | Mapping[str, Device]:
    if isinstance(hardware, Mapping):
        _require_jobs("hardware", hardware, spec)
        return dict(hardware)  # what its maker does with it later is of no other run
    return hardware if hardware is not None else models.laptop_cpu


def _checked_disks(disks: DiskModel | Mapping[str, DiskModel] | None, spec: ClusterSpec) -> DiskModel | Mapping[str, DiskModel]:
    by_job = cast("dict[str, object]", dict(disks)) if isinstance(disks, Mapping) else {"": models.nvme if disks is None else disks}
    if isinstance(disks, Mapping):
        _require_jobs("disks", disks, spec)
    for model in by_job.values():
        if not isinstance(model, DiskModel):
            raise TypeError(
                f"disks holds {shown(model)}; expected a DiskModel, such as simdist.hardware.ssd, or a dict from job to DiskModel"
            )
    if isinstance(disks, Mapping):
        return dict(disks)
    return disks if disks is not None else models.nvme
