"""The tasks of a cluster and their names: ``job:index`` in text, `TaskId` in code.

Faults, traces, messages and mappings all name tasks in this one way. A job that can have one task only (``chief``,
``evaluator``) may be named without an index. A name that fits no task is an error that lists the tasks there are.

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from simdist.cluster.spec import ClusterSpec, JobTasks
from simdist.errors import InvalidArgumentError, NotFoundError, did_you_mean

__all__ = ["SINGLE_JOBS", "SpecLike", "TaskId", "as_spec", "find_task", "server_task", "tasks_of"]

# What describes a cluster where a function takes one.
SpecLike: TypeAlias = ClusterSpec | Mapping[str, JobTasks]

SINGLE_JOBS = ("chief", "evaluator")  # jobs of one task: their name alone says which task is meant


@dataclass(frozen=True, order=True, slots=True)
class TaskId:
    """One task: its job and its index in that job.

    Args:
        job: name of the job, such as ``"worker"``.
        index: number of the task in its job, from 0 on.

    Example:
        >>> str(TaskId("worker", 1))
        'worker:1'
        >>> TaskId.parse("ps:0")
        TaskId(job='ps', index=0)
        >>> sorted([TaskId("worker", 10), TaskId("worker", 2)])[0].index
        2
    """

    job: str
    index: int

    @classmethod
    def parse(cls, name: str) -> TaskId:
        """The task that a text such as ``"worker:1"`` names; ``"chief"`` and ``"evaluator"`` need no index.

        Raises:
            TypeError: if `name` is not text.
            InvalidArgumentError: if `name` is not of that form.

        Example:
            >>> TaskId.parse("chief")
            TaskId(job='chief', index=0)
        """
        job, colon, index = _checked_name(name).partition(":")
        if job in SINGLE_JOBS and not colon:
            return cls(job, 0)
        if not job or not (index.isascii() and index.isdecimal()):
            raise InvalidArgumentError(f'a task is named "job:index", such as "worker:1"; got {name!r}.')
        return cls(job, int(index))

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f'a task is named by text such as "worker:1"; got {name!r}.')
    return name


def tasks_of(spec: SpecLike) -> list[TaskId]:
    """Every task of a cluster: jobs in the order of the spec, tasks in the order of their index.

    Example:
        >>> [str(task) for task in tasks_of({"worker": 2, "ps": 1})]
        ['worker:0', 'worker:1', 'ps:0']
    """
    spec = as_spec(spec)
    return [TaskId(job, index) for job in spec.jobs for index in spec.task_indices(job)]


def find_task(spec: SpecLike, name: str | TaskId, also: Iterable[TaskId] = ()) -> TaskId:
    """The task of a cluster that a user named.

    Args:
        spec: the cluster.
        name: ``"worker:1"``, ``"chief"``, or a `TaskId`.
        also: tasks that exist without being in the spec, such as the notebook that coordinates.

    Raises:
        InvalidArgumentError: if `name` is not the name of a task.
        NotFoundError: if the cluster has no such task.

    Example:
        >>> find_task({"worker": 2}, "worker:1")
        TaskId(job='worker', index=1)
    """
    known = [*tasks_of(spec), *also]
    try:
        task = name if isinstance(name, TaskId) else TaskId.parse(name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error} {did_you_mean(str(name), map(str, known))}") from None
    if task not in known:
        raise NotFoundError(f"the cluster has no task {str(task)!r}. {did_you_mean(str(task), map(str, known))}")
    return task


def server_task(spec: SpecLike, job_name: str | None = None, task_index: int | None = None) -> TaskId:
    """The task that a server is started for; what the spec leaves no choice about may be left out.

    Raises:
        InvalidArgumentError: if `job_name` or `task_index` is needed and missing, or names no task.

    Example:
        >>> server_task({"worker": 1})
        TaskId(job='worker', index=0)
    """
    spec = as_spec(spec)
    if job_name is None:
        if len(spec.jobs) != 1:
            raise InvalidArgumentError(f"job_name is needed: the cluster has the jobs {spec.jobs}.")
        job_name = spec.jobs[0]
    if task_index is None:
        indices = spec.task_indices(job_name)
        if len(indices) != 1:
            raise InvalidArgumentError(f"task_index is needed: job {job_name!r} has the tasks {indices}.")
        task_index = indices[0]
    spec.task_address(job_name, task_index)
    return TaskId(job_name, task_index)


def as_spec(spec: SpecLike) -> ClusterSpec:
    """A `ClusterSpec` from what describes a cluster.

    Raises:
        InvalidArgumentError: if `spec` is neither a `ClusterSpec` nor a mapping.

    Example:
        >>> as_spec({"worker": ["a:1"]})
        ClusterSpec({'worker': ['a:1']})
    """
    if not _describes_cluster(spec):
        raise InvalidArgumentError(f'a cluster is a ClusterSpec or a dict such as {{"worker": 3}}; got {spec!r}.')
    return ClusterSpec(spec)


def _describes_cluster(value: object) -> bool:
    return isinstance(value, ClusterSpec | Mapping)
