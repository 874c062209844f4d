"""The cluster spec: the jobs of a cluster, and the addresses of their tasks.

A *job* is a group of tasks with the same role (``worker``, ``ps``, ``chief``, ``evaluator``), a *task* is one
member of it, named by its index. Indices usually run from 0 without holes (a *dense* job); a job may also be
*sparse*, when only some of its tasks exist or are known.

Invariants: a spec never changes after it was built, jobs keep the order in which they were given, and the
tasks of a job are kept in order of their index. Addresses are text: nothing here opens a connection.

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import TypeAlias, cast

from simdist.arguments import shown, whole_number
from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = ["ClusterSpec", "JobTasks", "require_different_addresses"]

# What describes the tasks of one job: how many, their addresses in order, or addresses by index.
JobTasks: TypeAlias = int | Sequence[str] | Mapping[int, str]

# The first port of addresses that are made up: the one that TensorFlow's own documentation uses.
FIRST_PORT = 2222
PORTS = 60_000
MOST_DIGITS = 18  # of an index that is written as text
MOST_TASKS = 1_000_000  # each takes 6 kB before it has done anything, and 25 kB once it has

EXPECTED = 'for example {"worker": 3, "ps": 2} or {"worker": ["host0:2222", "host1:2222"]}'


class ClusterSpec:
    """The jobs of a cluster and the addresses of their tasks.

    Args:
        cluster: a mapping from job to its tasks: a number of tasks (their addresses are then made up, always the
            same ones), a list of ``"host:port"``, or a mapping from index to ``"host:port"`` for a sparse job.
            Another `ClusterSpec` is copied.

    Raises:
        TypeError: if `cluster`, or the tasks of a job, are of no such type.
        InvalidArgumentError: if a job's name, a number of tasks or an index cannot be used; or there are more than a million tasks, of
            which each takes memory of this machine.

    Example:
        >>> spec = ClusterSpec({"worker": 2, "ps": ["ps0.lab:2222"]})
        >>> spec.jobs
        ['worker', 'ps']
        >>> spec.task_address("worker", 1)
        'worker-1.simdist:2223'
        >>> spec.num_tasks("ps")
        1
    """

    def __init__(self, cluster: ClusterSpec | Mapping[str, JobTasks]) -> None:
        self._jobs = cluster._jobs if isinstance(cluster, ClusterSpec) else _checked_jobs(cluster)

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs, in the order in which they were given."""
        return list(self._jobs)

    def num_tasks(self, job: str) -> int:
        """How many tasks a job has; holes do not count.

        Raises:
            InvalidArgumentError: if there is no such job.

        Example:
            >>> ClusterSpec({"ps": {0: "a:1", 2: "b:1"}}).num_tasks("ps")
            2
        """
        return len(self._tasks(job))

    def task_indices(self, job: str) -> list[int]:
        """The indices of a job's tasks, in ascending order.

        Raises:
            InvalidArgumentError: if there is no such job.

        Example:
            >>> ClusterSpec({"ps": {2: "b:1", 0: "a:1"}}).task_indices("ps")
            [0, 2]
        """
        return list(self._tasks(job))

    def task_address(self, job: str, index: int) -> str:
        """The address at which one task listens.

        Raises:
            InvalidArgumentError: if there is no such job, or no such task in it.

        Example:
            >>> ClusterSpec({"worker": ["a:1", "b:1"]}).task_address("worker", 1)
            'b:1'
        """
        tasks = self._tasks(job)
        index = whole_number(index, "index", 0)
        if index not in tasks:
            listed = ", ".join(map(str, tasks)) or "none"
            raise InvalidArgumentError(f"No task with index {index!r} in job {job!r}. Known indices: {listed}.")
        return tasks[index]

    def job_tasks(self, job: str) -> list[str | None]:
        """The addresses of a job's tasks by index, with None where an index has no task.

        Raises:
            InvalidArgumentError: if there is no such job, or an index is so large that the list would fill the memory.

        Example:
            >>> ClusterSpec({"ps": {0: "a:1", 2: "b:1"}}).job_tasks("ps")
            ['a:1', None, 'b:1']
        """
        tasks = self._tasks(job)
        length = max(tasks, default=-1) + 1
        if length > MOST_TASKS:
            raise InvalidArgumentError(
                f"job_tasks({job!r}) would be a list of {length:,} addresses, nearly all None, for the index {length - 1}. Ask for "
                f"as_dict()[{job!r}], or for task_indices({job!r}) and the task_address of each."
            )
        return [tasks.get(index) for index in range(length)]

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """The spec as plain data: a list for a dense job, a dict for a sparse one, ``{}`` for one without tasks.

        Example:
            >>> ClusterSpec({"worker": ["a:1"], "ps": {1: "b:1"}}).as_dict()
            {'worker': ['a:1'], 'ps': {1: 'b:1'}}
        """
        return {job: list(tasks.values()) if _is_dense(tasks) else dict(tasks) for job, tasks in self._jobs.items()}

    def _tasks(self, job: str) -> dict[int, str]:
        if not isinstance(cast("object", job), str) or job not in self._jobs:
            raise InvalidArgumentError(f"No such job in the cluster: {shown(job)}. {did_you_mean(str(shown(job)), self._jobs)}")
        return self._jobs[job]

    def __contains__(self, job: object) -> bool:
        return job in self._jobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return self._jobs == other._jobs if isinstance(other, ClusterSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset((job, tuple(tasks.items())) for job, tasks in self._jobs.items()))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"


def require_different_addresses(spec: ClusterSpec) -> None:
    """Refuse a cluster in which two tasks would listen on one address: on machines the second of them could not start.

    Raises:
        InvalidArgumentError: they have the same address.

    Example:
        >>> require_different_addresses(ClusterSpec({"worker": ["a:1", "b:1"], "ps": ["c:1"]}))
    """
    tasks: dict[str, str] = {}
    for job in spec.jobs:
        for index in spec.task_indices(job):
            address = spec.task_address(job, index)
            first = tasks.setdefault(address, f"{job}:{index}")
            if address and first != f"{job}:{index}":
                raise InvalidArgumentError(
                    f"{first} and {job}:{index} have the same address, {address!r}. Give each task a host or a port of its own."
                )


def _checked_jobs(cluster: object) -> dict[str, dict[int, str]]:
    if not isinstance(cluster, Mapping):
        raise TypeError(f"cluster must map jobs to tasks, {EXPECTED}; got {shown(cluster)}.")
    jobs = cast("Mapping[object, object]", cluster)
    counts = [int(cast("int", tasks)) for tasks in jobs.values() if _is_whole(tasks)]
    if sum(count for count in counts if count > 0) > MOST_TASKS:
        raise InvalidArgumentError(
            f"cluster={dict(jobs)!r:.200} has more than {MOST_TASKS:,} tasks. Each takes 6 kB of this machine's memory, and 25 kB once it "
            "has run a step: simulate fewer."
        )
    return {_checked_job(job): _addresses(job, tasks) for job, tasks in jobs.items()}


def _is_dense(tasks: Mapping[int, str]) -> bool:
    return bool(tasks) and max(tasks) + 1 == len(tasks)


def _checked_job(job: object) -> str:
    if not isinstance(job, str):
        raise TypeError(f"the name of a job must be a str, {EXPECTED}; got {job!r}.")
    # A task is written "job:index" and a device of a task "job:index/device", so neither sign may be in a name.
    if not job or ":" in job or "/" in job:
        raise InvalidArgumentError(f"the name of a job must not be empty nor contain ':' or '/'; got {job!r}.")
    return job


def _addresses(job: object, tasks: object) -> dict[int, str]:
    """The tasks of one job as index -> address, in order of the index."""
    if _is_whole(tasks):
        return _made_up(str(job), int(cast("int", tasks)))
    if isinstance(tasks, Mapping):
        by_index = cast("Mapping[object, object]", tasks)
        pairs = [(_checked_index(job, index), address) for index, address in by_index.items()]
    elif isinstance(tasks, list | tuple):
        pairs = list(enumerate(cast("Sequence[object]", tasks)))
    else:
        raise TypeError(
            f"the tasks of job {job!r} must be a number, a list of addresses or a dict index -> address, {EXPECTED}; got {tasks!r}."
        )
    addresses = {index: _checked_address(job, address) for index, address in pairs}
    if len(addresses) < len(pairs):
        raise InvalidArgumentError(f"job {job!r} names one task index twice: {tasks!r}.")
    return dict(sorted(addresses.items()))


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _made_up(job: str, count: int) -> dict[int, str]:
    if count < 0:
        raise InvalidArgumentError(f"the number of tasks of job {job!r} must not be negative; got {count}.")
    return {index: f"{job}-{index}.simdist:{FIRST_PORT + index % PORTS}" for index in range(count)}


def _checked_index(job: object, index: object) -> int:
    # The keys of a JSON object are always text, so "1" must be as good as 1.
    text = isinstance(index, str) and index.isdecimal() and len(index) <= MOST_DIGITS
    if not (_is_whole(index) or text) or int(cast("int", index)) < 0:
        raise InvalidArgumentError(f"the index of a task of job {job!r} must be a whole number from 0 on; got {index!r}.")
    return int(cast("int", index))


def _checked_address(job: object, address: object) -> str:
    if not isinstance(address, str):
        raise TypeError(f'the address of a task of job {job!r} must be text such as "host0:2222"; got {shown(address)}.')
    return address
