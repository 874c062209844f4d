"""Resolvers: objects that find a cluster, and the task that this program is.

A strategy does not care who described the cluster: a spec written by hand, the environment, or several sources
put together. It asks a resolver for `cluster_spec()`, `task_type`, `task_id` and `master()` (the address to talk to).

Invariants: what was given to a constructor, or set later, wins over what the resolver finds by itself, and 0 is
a given value like any other. What is found outside is looked up anew at each access and never kept.

To add a resolver, subclass `ClusterResolver`: write `cluster_spec`, and `found` where the identity comes from outside.

Taught in lesson 04.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import NamedTuple, cast

from simdist.arguments import shown, whole_number
from simdist.cluster.spec import ClusterSpec
from simdist.errors import InvalidArgumentError

__all__ = ["ClusterResolver", "Found", "SimpleClusterResolver", "checked_id", "checked_text", "checked_type", "spec_of"]


class Found(NamedTuple):
    """The identity that a resolver finds by itself; None where it finds nothing."""

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str = ""


class ClusterResolver(abc.ABC):
    """The base of all resolvers: the rules of identity and address; a subclass says where the cluster comes from.

    Example:
        >>> class OneWorker(ClusterResolver):
        ...     def cluster_spec(self):
        ...         return ClusterSpec({"worker": ["a:1"]})
        >>> resolver = OneWorker()
        >>> resolver.task_type, resolver.task_id = "worker", 0
        >>> resolver.master(rpc_layer="grpc")
        'grpc://a:1'
    """

    # Given values; kept as class attributes so that a subclass need not call a constructor.
    _task_type: str | None = None
    _task_id: int | None = None
    _rpc_layer: str | None = None
    _environment: str | None = None

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """The cluster, as it is known now."""

    def found(self) -> Found:
        """The identity that comes from outside, used where none was given."""
        return Found()

    @property
    def task_type(self) -> str | None:
        """The job of this task, or None where it is not known."""
        return self.found().task_type if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, value: str | None) -> None:
        self._task_type = checked_type(value)

    @property
    def task_id(self) -> int | None:
        """The index of this task in its job, or None where it is not known."""
        return self.found().task_id if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, value: int | None) -> None:
        self._task_id = checked_id(value)

    @property
    def rpc_layer(self) -> str | None:
        """The scheme of addresses, such as ``"grpc"``, or None for bare addresses."""
        return self.found().rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, value: str | None) -> None:
        self._rpc_layer = checked_text(value, "rpc_layer")

    @property
    def environment(self) -> str:
        """Where the cluster runs (``"google"`` inside that company), ``""`` everywhere else."""
        return self.found().environment if self._environment is None else self._environment

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The address of a task, by default of this one.

        Args:
            task_type: job of the task; default: this task's.
            task_id: index of the task; default: this task's.
            rpc_layer: scheme in front of the address; default: the resolver's.

        Returns:
            ``"scheme://host:port"``, or ``"host:port"`` without a scheme; ``""`` where this task has no address.

        Raises:
            InvalidArgumentError: if the task does not exist, or only half of its name is known.
        """
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else checked_id(task_id)
        asked = task_type is not None or task_id is not None
        if asked and (job is None or index is None):
            raise InvalidArgumentError(f"master() needs both task_type and task_id; it has {job!r} and {index!r}.")
        if job is None or index is None:
            return ""
        spec = self.cluster_spec()
        if not asked and job == "evaluator" and job not in spec:
            return ""  # an evaluator runs beside its cluster
        return _with_scheme(spec.task_address(job, index), self.rpc_layer if rpc_layer is None else rpc_layer)

    def num_accelerators(self, task_type: str | None = None, task_id: int | None = None) -> Mapping[str, int]:
        """How many accelerators of each kind a task has, such as ``{"GPU": 8}``; ``{}`` where that is not known."""
        return {}

    def __repr__(self) -> str:
        # Given values only: what is found outside may be unusable, and a repr must not raise.
        return f"{type(self).__name__}(task_type={self._task_type!r}, task_id={self._task_id!r})"


class SimpleClusterResolver(ClusterResolver):
    """A cluster that was written down: a fixed spec, and the identity of one task of it.

    Args:
        cluster_spec: the cluster.
        task_type: job of this task; ``""`` or None for a process outside of the cluster.
        task_id: index of this task in its job.
        master: the address to talk to; default: this task's own address.
        environment: where the cluster runs.
        num_accelerators: accelerators of each task by kind, such as ``{"GPU": 8}``.
        rpc_layer: scheme of addresses, such as ``"grpc"``.

    Raises:
        TypeError: if `cluster_spec` is no `ClusterSpec`, or another argument is of the wrong type.
        InvalidArgumentError: if `task_type` or `task_id` cannot be.

    Example:
        >>> spec = ClusterSpec({"worker": ["a:1", "b:1"]})
        >>> SimpleClusterResolver(spec, "worker", 1, rpc_layer="grpc").master()
        'grpc://b:1'
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        task_type: str | None = "",
        task_id: int | None = None,
        *,
        master: str = "",
        environment: str = "",
        num_accelerators: Mapping[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        self._spec = _checked_spec(cluster_spec)
        self._task_type = checked_type(task_type)
        self._task_id = checked_id(task_id)
        self._master = _checked_master(master)
        self._environment = checked_text(environment, "environment") or ""
        self._num_accelerators = _checked_accelerators(num_accelerators)
        self._rpc_layer = checked_text(rpc_layer, "rpc_layer")

    def cluster_spec(self) -> ClusterSpec:
        """The cluster that was given."""
        return self._spec

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The given `master`, or the address of a task as in `ClusterResolver.master`."""
        if self._master and task_type is None and task_id is None:
            return _with_scheme(self._master, self.rpc_layer if rpc_layer is None else rpc_layer)
        return super().master(task_type, task_id, rpc_layer)

    def num_accelerators(self, task_type: str | None = None, task_id: int | None = None) -> Mapping[str, int]:
        """The accelerators that were given, the same for every task."""
        return dict(self._num_accelerators)


def spec_of(resolver: ClusterResolver) -> ClusterSpec:
    """The cluster that a resolver describes, which may be of a class of a user's own.

    Raises:
        TypeError: it gives no `ClusterSpec`.
    """
    spec = cast("object", resolver.cluster_spec())
    if not isinstance(spec, ClusterSpec):
        raise TypeError(
            f"{type(resolver).__name__}.cluster_spec() gave {spec!r}; expected a ClusterSpec, such as ClusterSpec({{'worker': 2}})."
        )
    return spec


def _with_scheme(address: str, rpc_layer: str | None) -> str:
    scheme = checked_text(rpc_layer, "rpc_layer")
    return f"{scheme}://{address}" if scheme and address else address


def _checked_spec(spec: object) -> ClusterSpec:
    if not isinstance(spec, ClusterSpec):
        raise TypeError(f"cluster_spec must be a ClusterSpec: write ClusterSpec({spec!r}).")
    return spec


def _checked_accelerators(given: object) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"num_accelerators must be a dict from kind to number, such as {{'GPU': 8}}; got {shown(given)}.")
    counts = cast("Mapping[object, object]", given)
    wrong = next((kind for kind in counts if not isinstance(kind, str)), None)
    if wrong is not None:
        raise TypeError(f"num_accelerators must be a dict from kind to number, such as {{'GPU': 8}}; it has the key {shown(wrong)}.")
    return {str(kind): whole_number(count, f"num_accelerators[{kind!r}]", 0) for kind, count in counts.items()}


def _checked_master(master: object) -> str:
    if not isinstance(master, str):
        raise TypeError(f'master must be text such as "grpc://host0:2222"; got {master!r}.')
    return master


def checked_text(value: object, name: str) -> str | None:
    """Text, or None; raises if it is neither."""
    if not isinstance(value, (str, type(None))):
        raise TypeError(f"{name} must be text; got {value!r}.")
    return value


def checked_type(task_type: object) -> str | None:
    """The job, with ``""`` as None; raises if it is no name of a job."""
    if task_type is None:
        return None
    if not isinstance(task_type, str):
        raise TypeError(f'task_type must be text such as "worker"; got {shown(task_type)}.')
    if not task_type:
        return None
    if ":" in task_type:
        raise InvalidArgumentError(f'task_type is the job alone, such as "worker", without task_id; got {task_type!r}.')
    return task_type


def checked_id(task_id: object) -> int | None:
    """The index; raises if it is no whole number from 0 on."""
    if task_id is None:
        return None
    if not isinstance(task_id, int) or isinstance(task_id, bool):
        raise TypeError(f"task_id must be an int; got {task_id!r}.")
    if task_id < 0:
        raise InvalidArgumentError(f"task_id must not be negative; got {task_id}.")
    return task_id
