"""The task runtime of one replica, where several take a step together.

Variables are on the replica's device, as copies that cannot differ or as replica-local values. The versions of a step become valid
when all replicas that this program drives have ended it. Until then each replica reads its own versions, and a step that fails
changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simdist.errors import AbortedError, FailedPreconditionError, UnavailableError
from simdist.ledger.entry import Site
from simdist.ledger.replica_lanes import ReplicaLanes
from simdist.program.arrays import Arrays
from simdist.program.step_iterator import StepBatch
from simdist.program.values import Bundle
from simdist.runtime.base import PENDING, Later
from simdist.runtime.linked import Apply, ApplyAll, ReadGroups, RunKernel
from simdist.runtime.linked_rows import RowOperands, inputs_of
from simdist.runtime.replicas import Member
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.taking_part import TakesPart
from simdist.runtime.simulated.world import World
from simdist.runtime.step_versions import PresentVersions, StepVersions

__all__ = ["SimulatedReplica", "TimedVersions"]


class TimedVersions(StepVersions):
    """The versions that a step makes, on devices.

    Attributes:
        ends_s: when a device has made a version, by the group, the number of the version in this step and the device.
    """

    def __init__(self, states: PresentVersions) -> None:
        super().__init__(states)
        self.ends_s: dict[tuple[int, int, str], float] = {}


class SimulatedReplica(TakesPart):
    """One replica of a step, as `TaskRuntime`.

    Args:
        world: the cluster's.
        member: its rank, task and device.
        priced: the prices of its program.
        versions: what the step has made so far.
        collective_group: that of its collectives; None for a single replica.
        leads: whether its task counts steps by it.
        lanes: take the kernel calls of all replicas of the step; None: each of them is noted by itself.
        lane: the number of this replica among them.
        counts: whether a task has taken one step more when it has taken this one.
    """

    def __init__(
        self,
        world: World,
        member: Member,
        priced: PricedProgram,
        versions: TimedVersions,
        collective_group: CollectiveGroup | None,
        leads: bool = True,
        lanes: ReplicaLanes | None = None,
        lane: int = 0,
        counts: bool = True,
    ) -> None:
        super().__init__(world, member, priced, collective_group, lanes, lane)
        self.versions = versions
        self.leads = leads
        self.counts = counts
        self.updates: dict[int, int] = {}
        self._counted: tuple[int, int] | None = None  # steps and draws of the task with this step
        self._has_computed = False

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays) -> Sequence[Bundle] | Later:
        self._has_computed = True
        return super().compute(op, inputs, batch, host)

    # -- variables of this device, or of another one of its task ----------------------------------------------------

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        away = [position for position, number in enumerate(op.numbers) if not self.states.is_on(number, self.device)]
        if not away:
            return self._seen(op)
        sizes = Counter[tuple[str, str]]()
        for position in away:
            sizes[self._source_of(op.numbers[position]), self.device] += self._bytes_of(op.numbers[position], op.cells[position])
        self._travel(sizes, "read", lambda: self._seen(op))
        return PENDING

    def _seen(self, op: ReadGroups) -> Sequence[Bundle]:
        return [self.versions.after(group, self.updates.get(group, 0)) for group in op.numbers]

    def _bytes_of(self, number: int, cells: Sequence[int]) -> int:
        group = self.states.groups[number]
        return sum([group.cells[position].aval.size_bytes for position in set(cells)])

    def _source_of(self, number: int) -> str:
        """The device of the task from which a variable is copied that this one has not; one that was lost is an error."""
        group = self.states.groups[number]
        first = group.cells[0]
        if self.states.bundles[number] is not None and first.replica is not None and first.devices != (self.device,):
            raise FailedPreconditionError(
                f"{self.device} was about to read the {first.name} of {first.devices[0]}: each replica has a value of its own, which no "
                "other can read in a step. Read it outside of steps, or exchange it by all_reduce or all_gather of the replica context."
            )
        if self.states.bundles[number] is None or group.task != self.task.name or first.replica is not None or len(first.devices) > 1:
            raise UnavailableError(
                f"{self.device} has no copy of {first.name} any more: {self.task.name} crashed after the variable was made. Build "
                "the model again, and restore a checkpoint into it if there is one."
            )
        return self.states.devices[number][0]

    # -- updating -------------------------------------------------------------------------------------------------

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        return self._update_from(op, operands, 0)

    def _update_from(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands], number: int) -> Later | None:
        """Apply the parts of an update, one after the other."""
        if number == len(op.parts):
            return None
        part = op.parts[number]
        devices = self.states.devices[part.group]
        if not devices:
            raise self.states.groups[part.group].lost_error()
        if self.collective_group is None and not self.states.is_on(part.group, self.device):
            self._travel({(self.device, devices[0]): part.size_bytes}, "update", lambda: self._change(op, operands, number))
            return PENDING
        return self._change(op, operands, number)

    def _change(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands], number: int) -> Later:
        part, now = op.parts[number], self.clock.now
        before = self.updates.get(part.group, 0)
        device = self._where(part)
        processor, key = self.world.processor(device), (part.group, before + 1, device)
        # A central variable is changed once, for all, who wait for it; of copies, each replica changes its own.
        if (end := self.versions.ends_s.get(key)) is not None:
            start = end = max(now, end)
        else:
            start, end = processor.occupy(now, self.priced.costs[part.number])
            self.versions.ends_s[key] = end
        self.waits_for = "its device"
        self.clock.after(end - now, self._changed, (op, operands, number, processor, before, start, end))
        return PENDING

    def _changed(self, what: tuple[ApplyAll, Sequence[Bundle | RowOperands], int, Processor, int, float, float]) -> None:
        op, operands, number, processor, before, start, end = what
        if self._ends_late(self._changed, what, processor):
            return
        part = op.parts[number]
        try:
            if not self.versions.known(part.group, before + 1):
                old, site = self.versions.after(part.group, before), self._site(part)
                where, (given, ids) = (self.device, self.number, end), inputs_of(operands[number])
                if self._changes_its_own(part.group):
                    (new,) = self.lanes.call(self.lane, site, (old, *given), None, ids, where)
                else:
                    (new,) = self.world.ledger.call(site, (old, *given), None, ids, where)
                self.versions.add(part.group, new)
            self.updates[part.group] = before + 1
            if end > start:
                if processor.late_s > start:
                    start = processor.began(start, end)
                version = self.states.versions[part.group] + before + 1
                self._note_changed(part, processor, start, end, version)
            else:
                self.processor.last = max(self.processor.last, processor.last)
            pending = self._update_from(op, operands, number + 1)
        except Exception as error:
            self.step.fail(error)
            return
        if pending is None:
            self.step.go()

    def _site(self, part: Apply) -> Site:
        """Where the ledger calls the kernel of a change; a mixture of its forms has a site of its own, and the price of the dense one."""
        known = self.priced.sites[part.number]
        return known if known.kernel is part.kernel else self.world.ledger.site(part.kernel, part.reads, [part.state])

    def _changes_its_own(self, group: int) -> bool:
        """Whether each replica has a variable of its own in the place of this one, and changes it."""
        return self.states.groups[group].cells[0].replica is not None

    def _note_changed(self, part: Apply, processor: Processor, start: float, end: float, version: int) -> None:
        kind = processor.kinds.get((part.kernel.name, self.task.name))
        if kind is None:
            kind = self.trace.kind(processor.name, "apply", part.kernel.name, {"version": int}, worker=self.task.name)
            processor.kinds[part.kernel.name, self.task.name] = kind
        # One device changes a central variable for all: the work of another replica may have kept it.
        cause = max(self.processor.last, processor.last)
        self.processor.last = processor.last = self.trace.add(kind, start, end, version, 0.0, cause)

    def _where(self, part: Apply) -> str:
        """The device that carries out an update: this one, or the only one that has the variable."""
        return self.device if self.states.is_on(part.group, self.device) else self.states.devices[part.group][0]

    def step_done(self) -> None:
        if self.leads:
            self._counted = self.number + self.counts, self.draw + self._draws
            super().step_done()

    def step_undone(self, error: BaseException) -> None:
        """The step has failed for this or another replica, so it does not count for this task."""
        task = self.task
        if self.leads and self.counts and self._has_computed and isinstance(error, (UnavailableError, AbortedError)):
            task.broken_steps += 1
        if self._counted == (task.steps, task.draws):
            task.steps, task.draws = self.number, self.draw
            if self.counts:
                self.trace.step_undone(task.name)
