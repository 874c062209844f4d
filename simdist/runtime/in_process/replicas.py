"""Replicas of this process that take steps together: each goes on in its turn, from one collective to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from simdist.errors import DeadlineExceededError
from simdist.program.bound_call import BoundCall
from simdist.program.collective import SPARSE_SUM, Collective
from simdist.program.sparse_sums import settled
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, Later, OperationResult
from simdist.runtime.combining import Combinations, disagreement
from simdist.runtime.in_process.computing import call_kernel
from simdist.runtime.in_process.programs import OneTask, Shared, TaskHere, kept_updates, raise_error
from simdist.runtime.in_process.replica_view import ReplicaView
from simdist.runtime.in_process.row_reading import flat
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import ApplyAll, LinkedCollective, LinkedProgram, ReadGroups
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.step_versions import StepVersions

__all__ = ["Driver", "OneReplica", "Replicas", "ReplicasHere", "StepHere", "TakingPart"]


class Driver(Protocol):
    """What replicas need of the engine that they belong to."""

    def require_usable(self, what: str) -> None:
        """See `Engine.require_usable`."""
        ...


class TakingPart(Protocol):
    """A replica in a step, as the others see it.

    Attributes:
        member: its rank and device.
        came: the collective that it has come to, and what it gives; None while it goes on.
    """

    @property
    def member(self) -> Member: ...
    @property
    def came(self) -> tuple[Collective, Bundle] | None: ...
    @property
    def over(self) -> bool: ...
    @property
    def result(self) -> Bundle: ...
    def go(self, result: OperationResult = None) -> None: ...


class Replicas(ABC):
    """Replicas that one driver drives, as `ReplicaGroup`.

    Args:
        driver: their engine.
        communication: in whose order sums are added.
        tasks: finds the task of a replica.
    """

    def __init__(self, driver: Driver, communication: Communication, tasks: Callable[[str], TaskHere]) -> None:
        self.driver = driver
        self.communication = communication
        self.tasks = tasks
        self.combinations = Combinations()

    @abstractmethod
    def step(
        self, local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall], is_alone: bool
    ) -> AbstractContextManager[Sequence[TakingPart]]:
        """The replicas of a new step. What they change counts when the block ends, and is dropped when it fails."""

    def believes_in(self, member: Member) -> bool:
        """Nobody dies here, or falls silent."""
        return True

    def run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> list[Bundle]:
        self.driver.require_usable("A step was taken")
        with self.step(local, linked, calls, len(members) == 1) as replicas:
            for replica in replicas:
                replica.go()
            number = 0
            while not all(replica.over for replica in replicas):
                for replica, result in zip(replicas, self.met(members, replicas, number), strict=True):
                    replica.go(result)
                number += 1
        for task in dict.fromkeys(member.task for member in local):
            self.tasks(task).steps += linked[0].program.counts
            self.tasks(task).draws += linked[0].draws
        return [replica.result for replica in replicas]

    def met(self, members: Sequence[Member], replicas: Sequence[TakingPart], number: int) -> Sequence[OperationResult]:
        """What each of them gets from a collective, to which all must have come."""
        came = {replica.member.device: replica.came for replica in replicas if replica.came is not None}
        first, (collective, _) = next(iter(came.items()))
        for device, (other, _) in came.items():
            if not other.agrees_with(collective):
                raise disagreement(first, collective, device, other, number)
        missing = [member.device for member in members if member.device not in came]
        if missing:
            raise DeadlineExceededError(
                f"{collective} cannot end: {', '.join(missing)} did not come, and nothing is still to happen that could bring them. All "
                "replicas must run the same step; compare what they do."
            )
        given = [bundle for _, bundle in came.values()]
        if collective.kind == SPARSE_SUM:
            collective = settled([other for other, _ in came.values()])
        plan = self.communication.plan(collective, tuple(came))
        how = self.combinations.of(collective, plan.schedule, tuple([bundle.avals for bundle in given]), 1)
        if how.kernel is None:
            return [given[0]] * len(given)
        made = call_kernel(how.kernel, given, how.writes, where=f" of {first}")
        return made * len(given) if how.is_shared else made


class OneReplica(OneTask):
    """The task of one of several replicas, and its step. What the step changes counts when it is over for all of them.

    Args:
        common, task: as of `OneTask`.
        member: its rank and device.
        versions: what the step has made so far.
        is_alone: whether there are no other replicas.

    Attributes:
        came: as of `TakingPart`.
    """

    def __init__(self, common: Shared, task: TaskHere, member: Member, versions: StepVersions, is_alone: bool) -> None:
        super().__init__(common, task, kept_updates())
        self.member = member
        self.view = ReplicaView(versions)
        self.which = () if is_alone else ("replica", member.rank)
        self.came: tuple[Collective, Bundle] | None = None

    def present(self, op: ReadGroups) -> Sequence[Bundle]:
        return list(map(self.view.present, op.numbers))

    def _where(self) -> str:
        return f" of {self.member.device}, step {self.task.steps}"

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        self.came = op.collective, operands
        return PENDING

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        for part, given in zip(op.parts, map(flat, operands), strict=True):
            self.view.change(part.group, part.kernel, given, self._where())

    def step_done(self) -> None:
        """It is over for all of them, or for none."""


class StepHere:
    """The step of one replica, as `TakingPart`.

    Args:
        replica: the task of its program.
        linked, call: its program and its arguments.
    """

    def __init__(self, replica: OneReplica, linked: LinkedProgram, call: BoundCall) -> None:
        self.replica = replica
        self.member = replica.member
        self._step = Step(linked, replica, call.iterators, call.arrays, raise_error)

    @property
    def came(self) -> tuple[Collective, Bundle] | None:
        return self.replica.came

    @property
    def over(self) -> bool:
        return self._step.over

    @property
    def result(self) -> Bundle:
        return self._step.result

    def go(self, result: OperationResult = None) -> None:
        self.replica.came = None
        self._step.go(result)


class InProcess(Driver, Shared, Protocol):
    """An engine whose tasks share its memory."""


class ReplicasHere(Replicas):
    """Replicas that share the memory of the driver.

    Args:
        common: what all tasks share.
        communication, tasks: as of `Replicas`.
    """

    def __init__(self, common: InProcess, communication: Communication, tasks: Callable[[str], TaskHere]) -> None:
        super().__init__(common, communication, tasks)
        self.common = common

    @contextmanager
    def step(
        self, local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall], is_alone: bool
    ) -> Iterator[Sequence[TakingPart]]:
        versions = StepVersions(self.common.versions)
        replicas = [OneReplica(self.common, self.tasks(member.task), member, versions, is_alone) for member in local]
        yield [StepHere(*of_one) for of_one in zip(replicas, linked, calls, strict=True)]
        versions.commit()
