"""A replica that takes part in collectives: what it has in common wherever its variables are.

It computes on a device of its task, draws random numbers of its rank, takes its part of the input when that is ready, and arrives in the
collectives of its group. How it reads and changes variables says who runs it: from copies on its device (`replica_runtime.py`), or from
parameter servers, together with the other replicas of its worker (`worker_replica.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simdist.errors import SimdistError
from simdist.ledger.replica_lanes import ReplicaLanes
from simdist.program.arrays import Array, Arrays
from simdist.program.step_iterator import StepBatch, StepIterator, TimedIterator
from simdist.program.values import Bundle
from simdist.randomness import step_key
from simdist.runtime.base import PENDING, Later, OperationResult
from simdist.runtime.linked import LinkedCollective, RunKernel
from simdist.runtime.replicas import Member
from simdist.runtime.simulated.arrival import Arrival
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.copies import Copy
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.world import World

__all__ = ["TakesPart"]


class TakesPart(SimulatedTask):
    """One replica of a step, as `TaskRuntime`, without its variables.

    Args:
        world: the cluster's.
        member: its rank, task and device.
        priced: the prices of its program.
        collective_group: that of its collectives; None for a single replica.
        lanes: take the kernel calls of all replicas of the step; None: each of them is noted by itself.
        lane: the number of this replica among them.
    """

    def __init__(
        self,
        world: World,
        member: Member,
        priced: PricedProgram,
        collective_group: CollectiveGroup | None,
        lanes: ReplicaLanes | None = None,
        lane: int = 0,
    ) -> None:
        task = world.tasks[member.task]
        super().__init__(world, task, priced, processor=task.processors[member.device])
        self.rank = member.rank
        self.number = task.steps
        self.draw = task.draws
        self.collective_group = collective_group
        self.lanes = lanes or world.ledger.lanes(1)
        self.lane = lane
        self.early: dict[LinkedCollective, Arrival | SimdistError] = {}
        self._copies: list[Copy] = []
        self._waiting_for: Arrival | None = None
        self._waits_since_s = 0.0

    def drop_call(self) -> None:
        for copy in self._copies:
            if copy.open:
                copy.drop()

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

    # -- copies between devices -----------------------------------------------------------------------------------

    def _travel(self, sizes: Mapping[tuple[str, str], int], what: str, then: Callable[[], OperationResult]) -> None:
        """Copy the bytes of variables, side by side; when all have come, the operation goes on.

        Args:
            sizes: bytes by source and target.
            what: the trace calls it.
            then: goes on.
        """
        began, awaited = self.clock.now, f"variables from {', '.join(dict.fromkeys(source for source, _ in sizes))}"
        left = len(sizes)
        self.waits_for = awaited

        def ended(error: BaseException | None) -> None:
            nonlocal left
            left -= 1
            if self.step.over or (left and error is None):
                return
            try:
                if error is not None:
                    raise error
                self.note(what, what, began, self.processor.last, bytes=sum(sizes.values()))
                result = then()
            except Exception as failure:
                self.drop_call()
                self.step.fail(failure)
                return
            if result is not PENDING:
                self.step.go(result)

        self._copies = [self.world.copy(*ends, size_bytes, awaited, ended) for ends, size_bytes in sizes.items()]

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
        if arrival.error is None and self.process.alive:
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
            if self.clock.now > self._waits_since_s:
                name = f"wait for {arrival.pending_collective.name}"
                self.note("wait", name, self._waits_since_s, self.processor.last, error=type(arrival.error).__name__)
            raise arrival.error
        assert self.collective_group is not None
        assert arrival.result is not None
        if not arrival.is_early:
            self.processor.last = self.collective_group.record(arrival)
        elif self.clock.now > self._waits_since_s:
            pending_collective = arrival.pending_collective
            self.note("wait", f"wait for {pending_collective.name}", self._waits_since_s, pending_collective.recorded[0])
        return arrival.result

    # -- the trace ------------------------------------------------------------------------------------------------

    def note(self, category: str, name: str, began: float, cause: int, **facts: object) -> None:
        """Record what is over now, as the last thing that this replica did."""
        self.processor.last = self.trace.span(self.device, category, name, began, self.clock.now, cause=cause, **facts)
