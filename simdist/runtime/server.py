"""`Server`: the server of one task, for programs that start one on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from simdist.arguments import flag
from simdist.cluster import ClusterSpec
from simdist.cluster.spec import FIRST_PORT, JobTasks
from simdist.cluster.tasks import server_task
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.runtime.launched_main import launched_main

__all__ = ["Server"]


class Server:
    """The server that a worker or a parameter server starts before it waits for work.

    In a simulated cluster every task serves from the beginning; `join` keeps a launched main alive, as on a real cluster.

    Args:
        spec: the cluster, as a `ClusterSpec` or its arguments.
        job_name: needed where there are several jobs.
        task_index: needed where the job has several tasks.
        protocol: the scheme of the address; default "grpc".
        config: accepted for tf.distribute's sake; without effect.
        start: False: `start` has to be called before `join`.

    Raises:
        InvalidArgumentError: the job or the task is not clear, or not in the spec.

    Example:
        >>> Server({"worker": ["a:2222"]}).target
        'grpc://a:2222'

        A program for all roles begins like this; `cluster.launch` runs it on each task:

        >>> import simdist as sd
        >>> def main():
        ...     resolver = sd.TFConfigClusterResolver()
        ...     if resolver.task_type in ("worker", "ps"):
        ...         Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        ...     return f"{resolver.task_type} coordinates"
        >>> with sd.Cluster({"chief": 1, "worker": 2, "ps": 1}) as cluster:
        ...     run = cluster.launch(main, job=["chief", "worker", "ps"])
        ...     run.join()
        >>> run.results
        {'chief:0': 'chief coordinates'}
    """

    def __init__(
        self,
        spec: ClusterSpec | Mapping[str, JobTasks],
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        self.spec = spec if isinstance(spec, ClusterSpec) else ClusterSpec(spec)
        task = server_task(self.spec, job_name, task_index)
        self.job_name, self.task_index = task.job, task.index
        self.protocol = _checked_protocol(protocol)
        self._is_started = flag(start, "start")

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """The server of a cluster of this process alone, whose job is ``localhost``.

        Args:
            config, start: as of `Server`.

        Example:
            >>> Server.create_local_server().target
            'grpc://localhost:2222'
        """
        return Server({"localhost": [f"localhost:{FIRST_PORT}"]}, config=config, start=start)

    @property
    def target(self) -> str:
        """The address of this task."""
        return f"{self.protocol}://{self.spec.task_address(self.job_name, self.task_index)}"

    def start(self) -> None:
        """Start the server, if it was made with ``start=False``."""
        self._is_started = True

    def join(self) -> NoReturn:
        """Wait for work. It does not return: it ends the main with the last main of the cluster that is not a server.

        Raises:
            FailedPreconditionError: called in a notebook cell, which would never come back, or before `start`.
        """
        if not self._is_started:
            raise FailedPreconditionError("The server was made with start=False. Call server.start() before server.join().")
        main = launched_main.get()
        if main is None:
            raise FailedPreconditionError("Server.join() never returns. Call it in a main that cluster.launch runs, not in a cell.")
        main.serve()


def _checked_protocol(protocol: object) -> str:
    if not isinstance(protocol, (str, type(None))):
        raise TypeError(f'protocol is {protocol!r}; expected the scheme of an address, such as "grpc"')
    if protocol == "":
        raise InvalidArgumentError('protocol is empty; expected the scheme of an address, such as "grpc"')
    return protocol or "grpc"
