"""The driver's half: as the engine around it, but what tasks hold and do is behind a line of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.extras import needs
from simdist.hardware import Network
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.in_process.engine import WithoutTime, require_no_backups
from simdist.runtime.in_process.isolated.groups import RemoteGroups
from simdist.runtime.in_process.isolated.host import Host
from simdist.runtime.in_process.isolated.post import Post
from simdist.runtime.in_process.isolated.replicas import RemoteReplicas
from simdist.runtime.in_process.isolated.switchboard import Switchboard
from simdist.runtime.in_process.isolated.workers import RemoteWorkers
from simdist.runtime.replicas import Communication
from simdist.runtime.serving import ASYNCHRONOUS, Serving
from simdist.runtime.updating import Assignment
from simdist.runtime.worker_replicas import LocalReplicas

__all__ = ["IsolatedEngine"]


class IsolatedEngine(WithoutTime):
    """As `Engine`; arguments as of `WithoutTime`.

    Attributes:
        switchboard: between the driver and the hosts.
        versions: where the values of all variables are.

    Raises:
        ModuleNotFoundError: the package that writes kernels as bytes is missing.
    """

    def __init__(self, tasks: Sequence[str], network: Network, seed: int) -> None:
        with needs("isolated=True", "isolated"):
            import flatbuffers  # noqa: F401  # pyright: ignore[reportUnusedImport]
        super().__init__(tasks, network, seed)
        self.switchboard = Switchboard()
        for name in tasks:
            self.switchboard.hosts[name] = Host(name, seed, self.chief, self.switchboard.deliver).handle
        self.post = Post(self.switchboard.deliver, self.observe)
        self.versions = RemoteGroups(self.post, self.hold)

    def read(self, groups: Sequence[int]) -> list[tuple[Any, ...]]:
        return self.versions.read(groups)

    def require_present(self, groups: Sequence[int]) -> None:
        self.versions.holders_of(groups)

    def assign(self, groups: Sequence[int], change: Assignment, operand: Any, what: str) -> None:
        for group in groups:
            self.change(group, change.kernel, Bundle.of([operand]), f" ({what})")

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, of its arrays and the given ones."""
        self.versions.change(group, kernel, given, where)

    def start_workers(
        self, tasks: Sequence[str], strategy: Any, serving: Serving = ASYNCHRONOUS, local: LocalReplicas | None = None
    ) -> RemoteWorkers:
        self.require_serving(serving)
        self.add_devices(tasks, local)
        return RemoteWorkers(self, list(map(self.process, tasks)), strategy, local)

    def replica_group(self, communication: Communication) -> RemoteReplicas:
        require_no_backups(communication)
        return RemoteReplicas(self, communication, self.process)
