"""`Server`: the server of one task, for programs that start one on every machine."""

from __future__ import annotations

from collections.abc import Mapping

from simdist.cluster import ClusterSpec
from simdist.cluster.spec import JobTasks
from simdist.cluster.tasks import server_task
from simdist.errors import FailedPreconditionError
from simdist.simulation.fiber import current_fiber

__all__ = ["Server"]


class Server:
    """The server that a worker or a parameter server starts before it waits for work.

    In a simulated cluster every task serves from the beginning; `join` keeps a launched main alive, as on a real cluster.

    Args:
        spec: the cluster, as a `ClusterSpec` or its arguments.
        job_name: needed where there are several jobs.
        task_index: needed where the job has several tasks.

    Raises:
        InvalidArgumentError: the job or the task is not clear, or not in the spec.

    Example:
        >>> Server({"worker": ["a:2222"]}).target
        'grpc://a:2222'
    """

    def __init__(self, spec: ClusterSpec | Mapping[str, JobTasks], job_name: str | None = None, task_index: int | None = None) -> None:
        self.spec = spec if isinstance(spec, ClusterSpec) else ClusterSpec(spec)
        task = server_task(self.spec, job_name, task_index)
        self.job_name, self.task_index = task.job, task.index

    @property
    def target(self) -> str:
        """The address of this task."""
        return f"grpc://{self.spec.task_address(self.job_name, self.task_index)}"

    def join(self) -> None:
        """Wait for ever, or until the task ends.

        Raises:
            FailedPreconditionError: called in a notebook cell, which would never come back.
        """
        fiber = current_fiber()
        if fiber is None:
            raise FailedPreconditionError("Server.join() never returns. Call it in a main that cluster.launch runs, not in a cell.")
        fiber.clock.wait(fiber.clock.gate(), "the end of its server (join)")
