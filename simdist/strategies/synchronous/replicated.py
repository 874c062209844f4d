"""Who takes part: the replicas of a strategy, their tasks and devices, and which of them this program drives.

Replicas may come and go (`elastic`), so that there are two counts: of those that take part now, and of those with which the strategy began.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.arguments import listed
from simdist.errors import InvalidArgumentError
from simdist.runtime.cluster import Cluster
from simdist.runtime.launched_main import launched_main
from simdist.runtime.replicas import Member, ReplicaGroup
from simdist.strategies.base import Strategy
from simdist.strategies.synchronous.protocols import Replicas
from simdist.variables.state import task_of

__all__ = ["ReplicatedStrategy"]


class ReplicatedStrategy(Strategy):
    """A strategy with replicas on devices.

    Args:
        cluster: where it runs; None: this machine alone, or the task whose main runs.

    Attributes:
        task_name: the task whose main runs; None where the program is no launched main.
        replicas: which of its replicas this program drives.
    """

    replicas: Replicas

    def __init__(self, cluster: Cluster | None = None) -> None:
        main = launched_main.get()
        self.task_name: str | None = None if main is None else main.task
        super().__init__(cluster if cluster is not None or main is None else main.cluster)

    def replica_devices(self) -> list[str]:
        """The device of each replica."""
        return [self.default_device]

    def _member(self, rank: int, device: str) -> Member:
        """A replica on a device."""
        self.engine.add_device(device)
        task = task_of(device)
        return Member(rank, task, device, self.engine.process(task))

    def _first_members(self) -> list[Member]:
        """The replicas with which the strategy begins."""
        devices: list[str] = listed(self.replica_devices(), f"{type(self).__name__}.replica_devices()", "a device for each replica")
        if len(set(devices)) < len(devices) or not devices:
            raise InvalidArgumentError(
                f"{type(self).__name__}.replica_devices() gave {devices!r}; expected a device for each replica, none of them twice."
            )
        members = [self._member(rank, device) for rank, device in enumerate(devices)]
        self._tasks_at_first = list(dict.fromkeys(member.task for member in members))
        self._num_at_first = len(members)
        return members

    @property
    def default_device(self) -> str:
        return self.task_name or super().default_device

    @property
    def reducer_device(self) -> str | None:
        """A device that reduces for all; None where the replicas do it among themselves."""
        return None

    @property
    def num_replicas_in_sync(self) -> int:
        return len(self.members)

    @property
    def has_several_replicas(self) -> bool:
        return self._num_at_first > 1

    @property
    def members(self) -> list[Member]:
        """All replicas, by rank."""
        return self.replicas.members

    @property
    def local_members(self) -> list[Member]:
        """The replicas that this program drives."""
        return self.replicas.local_members

    @property
    def driven_tasks(self) -> list[str]:
        return list(dict.fromkeys([self.program_task, *(member.task for member in self.local_members)]))

    @property
    def launched(self) -> bool:
        return self.replicas.launched

    @property
    def group(self) -> ReplicaGroup:
        """Where the replicas take part in collectives."""
        return self.replicas.group

    @property
    def num_workers(self) -> int:
        """Tasks that have replicas."""
        return len({member.task for member in self.members})

    @property
    def present_workers(self) -> Sequence[int]:
        present = {member.task for member in self.members}
        return [number for number, task in enumerate(self._tasks_at_first) if task in present]

    @property
    def workers_at_first(self) -> int:
        return len(self._tasks_at_first)

    @property
    def worker_index(self) -> int:
        return self.replicas.worker_index

    @property
    def ranks(self) -> range:
        first = self.local_members[0].rank
        return range(first, first + len(self.local_members))

    def local_rank_of(self, rank: int) -> int:
        return rank - self.ranks.start

    @property
    def devices(self) -> list[str]:
        """The devices of the replicas."""
        return [member.device for member in self.members]

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that hold variables."""
        return self.devices

    @property
    def is_chief(self) -> bool:
        """Whether this program saves checkpoints."""
        return self.replicas.is_chief
