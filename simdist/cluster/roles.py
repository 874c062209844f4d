"""The roles of tasks: which task is the chief, which one leads, and how many work.

Four jobs have a role: ``chief`` (at most one task; it coordinates, and works too where training is synchronous),
``worker``, ``ps`` (keeps variables) and ``evaluator`` (watches checkpoints, beside the cluster, so it may be
missing from the spec).

Only rules over a `ClusterSpec` live here: no environment, no clock, no state. A role function answers for one task,
takes a spec or a mapping that makes one, and refuses a task that cannot exist.

Taught in lesson 00.
"""

from __future__ import annotations

from simdist.cluster.spec import ClusterSpec
from simdist.cluster.tasks import SINGLE_JOBS, SpecLike, TaskId, as_spec
from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = [
    "TaskId",
    "collective_leader",
    "coordination_leader",
    "id_in_cluster",
    "is_chief",
    "worker_count",
]

TASK_TYPES = ("chief", "worker", "ps", "evaluator")


def is_chief(spec: SpecLike, task_type: str | None = None, task_id: int | None = None) -> bool:
    """Whether a task does the work of a single task, such as saving: the chief, or worker 0 where there is no chief.

    An evaluator is the chief of its own little cluster of one.

    Raises:
        InvalidArgumentError: if the role, the index or the spec cannot be.

    Example:
        >>> is_chief({"worker": 2}, "worker", 0), is_chief({"chief": 1, "worker": 2}, "worker", 0)
        (True, False)
    """
    spec = _checked(spec, task_type, task_id)
    if task_type in SINGLE_JOBS:
        return True
    return task_type == "worker" and task_id == 0 and "chief" not in spec


def collective_leader(spec: SpecLike, task_type: str | None = None, task_id: int | None = None) -> str:
    """The task that leads collectives: the chief or else worker 0; ``""`` for a local process or an evaluator.

    Raises:
        InvalidArgumentError: if the role, the index or the spec cannot be.

    Example:
        >>> collective_leader({"worker": 2}, "worker", 1)
        'worker:0'
    """
    spec = _checked(spec, task_type, task_id)
    return "" if task_type == "evaluator" else _first_task(spec, "chief", "worker")


def coordination_leader(spec: SpecLike) -> str:
    """The task where the coordination service runs: ps 0, else the chief, else worker 0, else ``""``.

    Raises:
        InvalidArgumentError: if the spec cannot be.

    Example:
        >>> coordination_leader({"worker": 2, "ps": 1})
        'ps:0'
    """
    return _first_task(_checked(spec, None, None), "ps", "chief", "worker")


def worker_count(spec: SpecLike, task_type: str | None) -> int:
    """How many tasks train together with a task of this type; the chief is one of them.

    Raises:
        InvalidArgumentError: if tasks of this type do not train, or do not exist.

    Example:
        >>> worker_count({"chief": 1, "worker": 2, "ps": 1}, "worker")
        3
    """
    spec = _checked(spec, task_type, None)
    if task_type == "evaluator":
        return max(_count(spec, "evaluator"), 1)
    if task_type not in ("chief", "worker"):
        raise InvalidArgumentError(f"worker_count is for task_type 'chief', 'worker' or 'evaluator'; got {task_type!r}.")
    return _count(spec, "chief") + _count(spec, "worker")


def id_in_cluster(spec: SpecLike, task_type: str | None, task_id: int | None) -> int:
    """The number of a task among those that train together: the chief is 0, workers follow.

    Raises:
        InvalidArgumentError: if tasks of this type do not train, or do not exist.

    Example:
        >>> id_in_cluster({"chief": 1, "worker": 2}, "worker", 1)
        2
    """
    spec = _checked(spec, task_type, task_id)
    if task_type not in ("chief", "worker", "evaluator") or task_id is None:
        raise InvalidArgumentError(
            f"there is no id for task_type {task_type!r}, task_id {task_id!r}: give a chief, worker or evaluator task."
        )
    return task_id + (_count(spec, "chief") if task_type == "worker" else 0)


def _count(spec: ClusterSpec, job: str) -> int:
    return spec.num_tasks(job) if job in spec else 0


def _first_task(spec: ClusterSpec, *jobs: str) -> str:
    return next((f"{job}:0" for job in jobs if _count(spec, job)), "")


def _checked(spec: SpecLike, task_type: str | None, task_id: int | None) -> ClusterSpec:
    """The spec, if it and this task of it can be."""
    spec = as_spec(spec)
    for job in SINGLE_JOBS:
        if _count(spec, job) > 1:
            raise InvalidArgumentError(f"there must be at most one {job!r} job task; got {_count(spec, job)}.")
    if task_type is None:
        return spec
    if task_type not in TASK_TYPES:
        raise InvalidArgumentError(f"unknown task_type {task_type!r}. {did_you_mean(task_type, TASK_TYPES)}")
    if task_type not in spec:
        if task_type != "evaluator":
            raise InvalidArgumentError(f"task_type {task_type!r} is not in the cluster. {did_you_mean(task_type, spec.jobs)}")
    elif task_id is not None and task_id not in (indices := spec.task_indices(task_type)):
        largest = max(indices, default=None)
        how = "exceeds the maximum id" if largest is None or task_id > largest else "is no id of a task"
        raise InvalidArgumentError(f"task_id {task_id} {how} of job {task_type!r}; its ids are {indices}.")
    return spec
