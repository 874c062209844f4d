"""The task runtime of one replica, where several take a step together.

Variables are on the replica's device, as copies that cannot differ or as replica-local values. The versions of a step become valid
when all replicas that this program drives have ended it. Until then each replica reads its own versions, and a step that fails
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.errors import SimdistError, UnavailableError
from simdist.ledger.entry import Site
from simdist.ledger.replica_lanes import ReplicaLanes
from simdist.program.arrays import Array, Arrays
from simdist.program.step_iterator import StepBatch, StepIterator, TimedIterator
from simdist.program.values import Bundle
from simdist.randomness import step_key
from simdist.runtime.base import PENDING, Later, OperationResult
from simdist.runtime.linked import Apply, ApplyAll, LinkedCollective, ReadGroups, RunKernel
from simdist.runtime.linked_rows import RowOperands, inputs_of
from simdist.runtime.replicas import Member
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.copies import Copy
from simdist.runtime.simulated.pending_collective import Arrival
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.world import World
from simdist.runtime.step_versions import StepVersions

__all__ = ["SimulatedReplica"]


class SimulatedReplica(SimulatedTask):
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
    """

    def __init__(
        self,
        world: World,
        member: Member,
        priced: PricedProgram,
        versions: StepVersions,
        collective_group: CollectiveGroup | None,
        leads: bool = True,
        lanes: ReplicaLanes | None = None,
        lane: int = 0,
    ) -> None:
        task = world.tasks[member.task]
        super().__init__(world, task, priced, processor=task.processors[member.device])
        self.rank = member.rank
        self.number = task.steps
        self.draw = task.draws
        self.versions = versions
        self.collective_group = collective_group
        self.leads = leads
        self.lanes = lanes or world.ledger.lanes(1)
        self.lane = lane
        self.updates: dict[int, int] = {}
        self.early: dict[LinkedCollective, Arrival | SimdistError] = {}
        self._copy: Copy | None = None
        self._waiting_for: Arrival | None = None
        self._waits_since_s = 0.0

    def drop_call(self) -> None:
        if self._copy is not None and self._copy.open:
            self._copy.drop()

    def random_key(self, salt: int) -> Array:
        which = () if self.collective_group is None else ("replica", self.rank)
        self._draws = True
        return step_key(self.world.seed, self.task.name, self.draw, salt, *which)

    # -- input ----------------------------------------------------------------------------------------------------

    def next_batch(self, iterator: StepIterator) -> StepBatch | Later:
        if isinstance(iterator, TimedIterator):
            began = self.clock.now
            until = iterator.ready_s(began)
            if until > began:
                self.waits_for = "its input"
                self.clock.after(until - began, self._input_is_there, (iterator, began))
                return PENDING
        return super().next_batch(iterator)

    def _input_is_there(self, what: tuple[StepIterator, float]) -> None:
        if self._is_late(self._input_is_there, what):
            return
        iterator, began = what
        self.note("input", "wait for input", began, self.processor.last)
        try:
            batch = super().next_batch(iterator)
        except Exception as error:
            self.step.fail(error)
        else:
            self.step.go(batch)

    # -- variables of this device, or of another one of its task ----------------------------------------------------

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        return self._read_from(op, 0)

    def _read_from(self, op: ReadGroups, first: int) -> Sequence[Bundle] | Later:
        """Fetch groups from other devices, one after the other; then the read is done."""
        devices = self.states.devices
        for number in range(first, len(op.numbers)):
            if self.device not in devices[op.numbers[number]]:
                self._fetch(op.numbers[number], lambda number=number: self._read_from(op, number + 1))
                return PENDING
        return [self.versions.after(group, self.updates.get(group, 0)) for group in op.numbers]

    def _fetch(self, number: int, then: Callable[[], OperationResult]) -> None:
        """Copy a variable from another device of the task; one that was lost is an error."""
        group = self.states.groups[number]
        first = group.cells[0]
        if self.states.bundles[number] is None or group.task != self.task.name or first.replica is not None or len(first.devices) > 1:
            raise UnavailableError(
                f"{self.device} has no copy of {first.name} any more: {self.task.name} crashed after the variable was made. Build "
                "the model again, or restore a checkpoint."
            )
        size_bytes = sum([cell.aval.size_bytes for cell in group.cells if cell.kind != "slot"])
        self._travel(self.states.devices[number][0], self.device, size_bytes, "read", then)

    def _travel(self, source: str, target: str, size_bytes: int, what: str, then: Callable[[], OperationResult]) -> None:
        """Copy the bytes of a variable from another device; then the operation goes on."""
        began = self.clock.now
        self.waits_for = f"variables from {source}"

        def ended(error: BaseException | None) -> None:
            if self.step.over:
                return
            try:
                if error is not None:
                    raise error
                self.note(what, what, began, self.processor.last, bytes=size_bytes)
                result = then()
            except Exception as failure:
                self.step.fail(failure)
                return
            if result is not PENDING:
                self.step.go(result)

        self._copy = self.world.copy(source, target, size_bytes, f"variables from {source}", ended)

    # -- computing ------------------------------------------------------------------------------------------------

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays) -> Sequence[Bundle] | Later:
        early = self.priced.early[op.number]
        if not early:
            return SimulatedTask.compute(self, op, inputs, batch, host)
        now = self.clock.now
        start, end = self.processor.occupy(now, self.priced.costs[op.number])
        # The operands of an early collective are noted before the kernel has ended.
        outputs = self._outputs(op, inputs, batch, host, end)
        for one in early:
            self.clock.after(start + one.fraction * (end - start) - now, self._arrive, (one.collective, outputs[one.position]))
        self.waits_for = "its device"
        self.clock.after(end - now, self._computed_early, (op, outputs, start, end))
        return PENDING

    def _outputs(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays, end: float) -> Sequence[Bundle]:
        return self.lanes.call(self.lane, self.priced.sites[op.number], inputs, batch, host, (self.device, self.number, end))

    def _computed_early(self, what: tuple[RunKernel, Sequence[Bundle], float, float]) -> None:
        if self._ends_late(self._computed_early, what, self.processor):
            return
        op, outputs, start, end = what
        if self.processor.late_s > start:
            start = self.processor.began(start, end)
        self.note_computed(op, start, end)
        self.step.go(outputs)

    # -- collectives ----------------------------------------------------------------------------------------------

    def _arrive(self, what: tuple[LinkedCollective, Bundle]) -> None:
        """Arrive at an early collective: a pack of gradients is ready while the kernel still runs."""
        op, operands = what
        assert self.collective_group is not None
        if self._is_late(self._arrive, what) or not self.collective_group.admits(self.rank):
            return
        try:
            arrival = self.collective_group.arrive(self.rank, op.collective, operands, self.processor.last, is_early=True)
        except SimdistError as error:
            # No operation waits yet; the one that asks for the result gets it.
            self.early[op] = error
            return
        self.early[op] = arrival
        if arrival.over:
            self._early_over(arrival)
        else:
            arrival.then(self._early_over)

    def _early_over(self, arrival: Arrival) -> None:
        if arrival.error is None:
            assert self.collective_group is not None
            self.collective_group.record(arrival, waited=False)
        if arrival is self._waiting_for:
            self._met(arrival)

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        assert self.collective_group is not None
        arrival = self.early.pop(op, None)
        if isinstance(arrival, SimdistError):
            raise arrival
        if arrival is None:
            arrival = self.collective_group.arrive(self.rank, op.collective, operands, self.processor.last)
        self._waits_since_s = self.clock.now
        if arrival.over:
            return self._got(arrival)
        self._waiting_for = arrival
        self.waits_for = arrival.pending_collective.awaited
        if not arrival.is_early:
            arrival.then(self._met)
        return PENDING

    def _met(self, arrival: Arrival) -> None:
        """The collective for which this replica waits has ended."""
        if self.step.over:
            return
        if self.task.held is not None:
            self.task.held.append((self._met, arrival))
            return
        self._waiting_for = None
        try:
            result = self._got(arrival)
        except Exception as error:
            self.step.fail(error)
        else:
            self.step.go(result)

    def _got(self, arrival: Arrival) -> Bundle:
        if arrival.error is not None:
            raise arrival.error
        assert self.collective_group is not None
        assert arrival.result is not None
        if not arrival.is_early:
            self.processor.last = self.collective_group.record(arrival)
        elif self.clock.now > self._waits_since_s:
            pending_collective = arrival.pending_collective
            self.note("wait", f"wait for {pending_collective.name}", self._waits_since_s, pending_collective.recorded[0])
        return arrival.result

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
        if self.collective_group is None and self.device not in devices:
            self._travel(self.device, devices[0], part.size_bytes, "update", lambda: self._change(op, operands, number))
            return PENDING
        return self._change(op, operands, number)

    def _change(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands], number: int) -> Later:
        part, now = op.parts[number], self.clock.now
        before = self.updates.get(part.group, 0)
        device = self._where(part)
        # A central variable is changed once, for all; of copies, each replica changes its own.
        pays = device == self.device or not self.versions.known(part.group, before + 1)
        processor = self.world.processor(device)
        start, end = processor.occupy(now, self.priced.costs[part.number]) if pays else (now, now)
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
        kind = processor.kinds.get((part, self.task.name))
        if kind is None:
            kind = self.trace.kind(processor.name, "apply", part.kernel.name, {"version": int}, worker=self.task.name)
            processor.kinds[part, self.task.name] = kind
        # One device changes a central variable for all: the work of another replica may have kept it.
        cause = max(self.processor.last, processor.last)
        self.processor.last = processor.last = self.trace.add(kind, start, end, version, 0.0, cause)

    def note(self, category: str, name: str, began: float, cause: int, **facts: object) -> None:
        """Record what is over now, as the last thing that this replica did."""
        self.processor.last = self.trace.span(self.device, category, name, began, self.clock.now, cause=cause, **facts)

    def _where(self, part: Apply) -> str:
        """The device that carries out an update: this one, or the only one that has the variable."""
        devices = self.states.devices[part.group]
        return self.device if self.device in devices else devices[0]

    def step_done(self) -> None:
        if self.leads:
            super().step_done()
