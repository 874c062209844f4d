"""Replicas of this process that take steps together: each goes on in its turn, from one collective to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.errors import DeadlineExceededError
from simdist.program.collective import Collective
from simdist.program.function import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, Later
from simdist.runtime.combining import Combinations, disagreement
from simdist.runtime.in_process.programs import Common, OneTask, TaskHere, call_kernel, raise_error
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import ApplyAll, LinkedCollective, LinkedProgram, ReadGroups
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.step_versions import StepVersions

__all__ = ["ReplicasHere"]


class OneReplica(OneTask):
    """What one of several replicas meets. What the step changes counts when it is over for all of them.

    Args:
        common, task: as of `OneTask`.
        member: its rank and device.
        versions: what the step has made so far.
        is_alone: whether there are no other replicas.

    Attributes:
        came: the collective that it has come to, and what it gives; None while it goes on.
    """

    def __init__(self, common: Common, task: TaskHere, member: Member, versions: StepVersions, is_alone: bool) -> None:
        super().__init__(common, task)
        self.member = member
        self.versions = versions
        self.which = () if is_alone else ("replica", member.rank)
        self.updates: dict[int, int] = {}
        self.came: tuple[Collective, Bundle] | None = None

    def read(self, op: ReadGroups) -> Sequence[Bundle]:
        return [self._present(group) for group in op.numbers]

    def _present(self, group: int) -> Bundle:
        """As this replica sees it: another one, whose copy is the same, may be ahead."""
        return self.versions.after(group, self.updates.get(group, 0))

    def _where(self) -> str:
        return f" of {self.member.device}, step {self.task.steps}"

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        self.came = op.collective, operands
        return PENDING

    def update(self, op: ApplyAll, operands: Sequence[Bundle]) -> None:
        for part, given in zip(op.parts, operands, strict=True):
            before = self.updates.get(part.group, 0)
            if not self.versions.known(part.group, before + 1):
                old = self._present(part.group)
                (new,) = call_kernel(part.kernel, [old, given], [old.avals], where=self._where())
                self.versions.add(part.group, new)
            self.updates[part.group] = before + 1

    def step_done(self) -> None:
        """It is over for all of them, or for none."""


class ReplicasHere:
    """Replicas that one driver drives, as `ReplicaGroup`.

    Args:
        common: what all tasks share.
        communication: in whose order sums are added.
        tasks: finds the task of a replica.
    """

    def __init__(self, common: Common, communication: Communication, tasks: Callable[[str], TaskHere]) -> None:
        self.common = common
        self.communication = communication
        self.tasks = tasks
        self.combinations = Combinations()

    def believes_in(self, member: Member) -> bool:
        """Nobody dies here, or falls silent."""
        return True

    def run(
        self, members: Sequence[Member], local: Sequence[Member], linked: Sequence[LinkedProgram], calls: Sequence[BoundCall]
    ) -> list[Bundle]:
        self.common.require_usable("A step was taken")
        versions = StepVersions(self.common.versions)
        replicas = [OneReplica(self.common, self.tasks(member.task), member, versions, len(members) == 1) for member in local]
        steps = [
            Step(program, replica, call.iterators, call.arrays, raise_error)
            for program, replica, call in zip(linked, replicas, calls, strict=True)
        ]
        for step in steps:
            step.go()
        number = 0
        while not all(step.over for step in steps):
            for step, result in zip(steps, self._met(members, replicas, number), strict=True):
                step.go(result)
            number += 1
        versions.commit()
        for task in dict.fromkeys(replica.task for replica in replicas):
            task.steps += 1
        return [step.result for step in steps]

    def _met(self, members: Sequence[Member], replicas: Sequence[OneReplica], number: int) -> list[Bundle]:
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
        for replica in replicas:
            replica.came = None
        given = [bundle for _, bundle in came.values()]
        plan = self.communication.plan(collective, tuple(came))
        how = self.combinations.of(collective, plan.schedule, tuple([bundle.avals for bundle in given]), 1)
        if how.kernel is None:
            return [given[0]] * len(given)
        made = call_kernel(how.kernel, given, how.writes, where=f" of {first}")
        return made * len(given) if how.is_shared else made
