"""The replicas of a synchronous strategy: which there are, and which of them this program drives.

One program drives all (`DrivenReplicas`), or every worker has a main of its own (`LaunchedReplicas`). Launched mains have to combine
what one program has at hand anyway: initial values, replica-local values that are read, what `reduce` and `gather` are given.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from simdist.cluster import ClusterResolver
from simdist.cluster.roles import id_in_cluster, is_chief
from simdist.program.arrays import Array, Tree
from simdist.runtime.replicas import Member, ReplicaGroup
from simdist.strategies.communication import CommunicationOptions, GroupCommunication
from simdist.strategies.reduction import ReduceOp
from simdist.strategies.synchronous.across_workers import AcrossWorkers
from simdist.strategies.synchronous.protocols import Axes, LocalGather, LocalReduce, Replicas, SteppingStrategy
from simdist.variables.variable import Variable

__all__ = ["DrivenReplicas", "LaunchedReplicas", "Replicas"]

T = TypeVar("T")


class DrivenReplicas:
    """One program drives all replicas, and has the values of all of them."""

    launched = False
    worker_index = 0
    is_chief = True
    read_across = None

    members: list[Member]
    group: ReplicaGroup

    @property
    def local_members(self) -> list[Member]:
        return self.members

    def attach(self, strategy: SteppingStrategy, members: list[Member]) -> None:
        self._strategy = strategy
        self.members = members

    def join(self, communication: GroupCommunication) -> None:
        self.group = self._strategy.engine.replica_group(communication)

    def before_step(self) -> None:
        """Nothing: the variables are where the program has made them."""

    def observe(self, read: Callable[[], T]) -> T:
        return read()

    def observe_without_values(self, read: Callable[[], object]) -> None:
        """Nothing: what is at hand takes no time."""

    def reduce(self, local: LocalReduce, options: CommunicationOptions | None, op: ReduceOp | str, value: Tree, axis: Axes) -> Tree:
        return local(options, op, value, axis)

    def gather(self, local: LocalGather, value: Tree, axis: int) -> Tree:
        return local(value, axis)

    def bytes_of_all(self, data: bytes) -> list[bytes]:
        return [data]


class LaunchedReplicas:
    """The replicas of one worker among those of other mains; they join one group.

    Args:
        resolver: knows the cluster, and which task this is.
        task_name: of this main.
    """

    launched = True

    members: list[Member]
    group: ReplicaGroup

    def __init__(self, resolver: ClusterResolver, task_name: str) -> None:
        self.resolver = resolver
        self.task_name = task_name
        self._across: AcrossWorkers | None = None  # None where there is one replica, which has nobody to communicate with

    @property
    def local_members(self) -> list[Member]:
        return [member for member in self.members if member.task == self.task_name] or self.members

    @property
    def worker_index(self) -> int:
        spec = self.resolver.cluster_spec()
        return id_in_cluster(spec, self.resolver.task_type, self.resolver.task_id) if spec else 0

    @property
    def is_chief(self) -> bool:
        spec = self.resolver.cluster_spec()
        return is_chief(spec, self.resolver.task_type, self.resolver.task_id) if spec else True

    @property
    def read_across(self) -> Callable[[Variable], Array] | None:
        return None if self._across is None else self._across.read

    def attach(self, strategy: SteppingStrategy, members: list[Member]) -> None:
        self._strategy = strategy
        self.members = members
        self._across = AcrossWorkers(strategy) if len(members) > 1 else None

    def join(self, communication: GroupCommunication) -> None:
        engine = self._strategy.engine
        if self._across is None:
            self.group = engine.replica_group(communication)
        else:
            self.group = engine.join_group(communication, self.members, self.task_name)

    def before_step(self) -> None:
        if self._across is not None:
            self._across.share_initial_values()

    def observe(self, read: Callable[[], T]) -> T:
        return read() if self._across is None else self._strategy.eagerly(read, "look", counts=False)

    def observe_without_values(self, read: Callable[[], object]) -> None:
        if self._across is not None:
            self._strategy.once(read, "look", counts=False)

    def reduce(self, local: LocalReduce, options: CommunicationOptions | None, op: ReduceOp | str, value: Tree, axis: Axes) -> Tree:
        return local(options, op, value, axis) if self._across is None else self._across.reduce(local, options, op, value, axis)

    def gather(self, local: LocalGather, value: Tree, axis: int) -> Tree:
        return local(value, axis) if self._across is None else self._across.gather(local, value, axis)

    def bytes_of_all(self, data: bytes) -> list[bytes]:
        return [data] if self._across is None else self._across.bytes_of_all(data)
