"""The task runtime of a simulated task: devices and links take virtual time, and the ledger notes the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError, TimedOutError, UnavailableError
from simdist.program.arrays import Array, Arrays
from simdist.program.row_numbers import RowNumbers
from simdist.program.step_iterator import StepBatch, StepIterator
from simdist.program.values import Bundle
from simdist.randomness import step_key
from simdist.runtime.base import PENDING, Later, StepInProgress
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, LinkedCollective, ReadGroups, ReadWithRows, RunKernel
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.simulated.calls import Call, CallPlan, ServerCall
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.pushing import Pushing
from simdist.runtime.simulated.reading import Reading
from simdist.runtime.simulated.remembered import PushIdentity
from simdist.runtime.simulated.row_calls import RowPushes, RowReads
from simdist.runtime.simulated.row_reading import RowReading, TableGathers
from simdist.runtime.simulated.served import Errand
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World

__all__ = ["SimulatedTask"]

# So long a worker waits before it calls a server again that is being restored.
REPEAT_S = 0.1

Argument = TypeVar("Argument")


class SimulatedTask:
    """One incarnation of a task, as `TaskRuntime`.

    Args:
        world: the cluster's.
        task: where the program runs.
        priced: the prices of the program.
        errand: the closure that the step belongs to; default none. Updates of the chief's variables are handed to it instead of being
            sent.
        processor: which of the task's computes; default its own.

    Attributes:
        waits_for: what the step waits for, in words.
        counts: whether the task has taken one step more when it has taken this one.
    """

    step: StepInProgress
    counts: bool = True

    def __init__(
        self,
        world: World,
        task: Task,
        priced: PricedProgram,
        errand: Errand | None = None,
        processor: Processor | None = None,
    ) -> None:
        self.world = world
        self.errand = errand
        self.task = task
        self.process = task.process
        self.priced = priced
        self.processor = processor or task.processor
        self.device = self.processor.name
        self.clock = world.clock
        self.trace = world.trace
        self.states = world.states
        self.waits_for: str | Callable[[], str] = ""
        self._call: Call | None = None
        self._began_s = 0.0
        self._pushes = 0  # of this step
        self._draws = False  # whether this step has drawn random numbers that its task counts when it is over
        self._versions_read: dict[int, int] = {}  # by group: what this step has read last

    def _is_late(self, function: Callable[[Argument], None], argument: Argument) -> bool:
        """Whether an event of a step must not happen now: the step is over, or its task is paused and repeats the event when it goes on."""
        if not self.process.alive or self.step.over:
            return True
        if self.task.held is not None:
            self.task.held.append((function, argument))
            return True
        return False

    def _ends_late(self, function: Callable[[Argument], None], argument: Argument, processor: Processor) -> bool:
        """As `_is_late`, of work whose argument ends with (start, end): where a process was paused, it ends when that goes on."""
        return self._is_late(self._end_now, (function, argument, processor))

    def _end_now(self, what: tuple[Callable[[Any], None], Any, Processor]) -> None:
        if self._is_late(self._end_now, what):
            return
        function, argument, processor = what
        *rest, start, end = argument
        now = self.clock.now
        function((*rest, start, now if end > start else end))
        if end > start:
            processor.late_s = now  # what waited behind it begins here

    def drop_call(self) -> None:
        """Cancel the call of a step that goes no further."""
        if self._call is not None and self._call.open:
            self._call.drop()

    def next_batch(self, iterator: StepIterator) -> StepBatch | Later:
        try:
            return iterator.next_batch()
        except StopIteration:
            raise OutOfRangeError(
                f"The dataset of {self.task.name} has run out. Ask for fewer steps, or end the dataset with .repeat()."
            ) from None

    def random_key(self, salt: int) -> Array:
        if self.errand is not None:
            return step_key(self.world.seed, *self.errand.draw(), salt)
        self._draws = True
        return step_key(self.world.seed, self.task.name, self.task.draws, salt)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, op: ReadGroups) -> Sequence[Bundle] | Later:
        plan = self.task.plans.get(op)
        if plan is None:
            plan = self.task.plans[op] = self._plan_read(op)
        states = self.states
        if not plan.parts:
            self._versions_read = {group: states.version(group) for group in op.numbers}
            return [states.present(group) for group in op.numbers]
        mine = (
            [position for position, group in enumerate(op.numbers) if states.groups[group].task == self.task.name]
            if plan.is_partial
            else ()
        )
        own = [(position, states.present(op.numbers[position]), states.version(op.numbers[position])) for position in mine]
        plan.uses += 1
        self._began_s = self.clock.now
        self.waits_for = "variables from parameter servers"
        self._call = reading = Reading(self.world.transport, self.task, plan, self, op.numbers, self.errand)
        for position, bundle, version in own:
            reading.found[position], reading.versions[position] = bundle, version
        return PENDING

    def _plan_read(self, op: ReadGroups) -> CallPlan:
        """The read that this task must send to other tasks."""
        wanted: dict[str, tuple[list[tuple[int, int]], int]] = {}
        for position, (group, _, size_bytes) in enumerate(op.groups):
            owner = self.states.groups[group].task
            if owner != self.task.name:
                groups, before = wanted.get(owner, ([], 0))
                wanted[owner] = ([*groups, (group, position)], before + size_bytes)
        parts: list[ServerCall] = []
        for name, (groups, size_bytes) in wanted.items():
            server, routes = self.world.tasks[name], self.world.routes
            part = ServerCall(self.world.servers[name], tuple(groups), None)
            parts.append(part.travel(routes.word(self.task, server, "read"), routes.leg(server, self.task, "read_reply", size_bytes)))
        return self._shown("read", CallPlan(parts, len(op.groups), sum(len(part.groups) for part in parts)))

    def read_rows(self, op: ReadWithRows, numbers: Sequence[RowNumbers]) -> Sequence[Bundle] | Later:
        known = self.task.plans.get(op)
        if known is None:
            gathers = [TableGathers(self.world.ledger, self.states, table) for table in op.tables]
            known = self.task.plans[op] = RowReads(self.world, self.task, op), gathers
        reads, gathers = known
        self._began_s = self.clock.now
        self.waits_for = "rows of variables from parameter servers"
        plan = reads.plan(numbers)
        self._call = reading = RowReading(self.world.transport, self.task, plan, self, reads, gathers, numbers, self.errand)
        if reading.left:
            return PENDING
        reading.close()
        self._call, self._versions_read = None, reading.versions_read
        return reading.result()

    def answered(self, call: Call) -> None:
        """A call has ended: the step goes on."""
        self._call = None  # it holds numbers, which would live until the collector comes by
        now, result, rows = self.clock.now, None, 0
        if isinstance(call, RowReading):
            self._versions_read, rows = call.versions_read, call.num_rows
            result = self._as_changed(call.dense_groups, call.result())
        elif isinstance(call, Reading):
            self._versions_read = dict(zip(call.groups, call.versions, strict=True))
            result = self._as_changed(call.groups, call.found)
        plan = call.plan
        self.processor.last = self.trace.add(plan.kind, self._began_s, now, plan.size_bytes, rows, call.cause)
        self.step.go(result)

    def _as_changed(self, groups: Sequence[int], found: Sequence[Bundle | None]) -> Sequence[Bundle | None]:
        """What was read, with what the closure itself has changed of the groups, which come first."""
        errand = self.errand
        if errand is None or not errand.has_changes:
            return found
        seen = [present and errand.seen(group, present) for group, present in zip(groups, found, strict=False)]
        return [*seen, *found[len(seen) :]]

    def unanswered(self, call: Call, error: BaseException) -> None:
        """A call has failed, and the step with it, unless its servers will be back."""
        errand, servers, pause_s = self.errand, call.plan.servers, None
        if errand is not None and isinstance(error, (UnavailableError, TimedOutError)) and errand.served.comes_back(call.plan.parts):
            pause_s = errand.served.repeats_after_s(servers, self._began_s, self.clock.now, REPEAT_S)
        if pause_s is None:
            self.step.fail(error if errand is None else errand.served.explained(error, call.plan.parts))
        else:
            self.waits_for = "parameter servers to be back"
            assert isinstance(call, (Reading, Pushing))
            self.clock.after(pause_s, self._again, call)

    def _again(self, call: Reading | Pushing) -> None:
        """Repeat a call; of a push, servers know what they have applied."""
        if self._is_late(self._again, call):
            return
        self._call = call.repeat()

    # -- computing ------------------------------------------------------------------------------------------------

    def compute(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays) -> Sequence[Bundle] | Later:
        now = self.clock.now
        start, end = self.processor.occupy(now, self.priced.costs[op.number])
        if end > now:
            self.waits_for = "its device"
            self.clock.after(end - now, self._computed, (op, inputs, batch, host, start, end))
            return PENDING
        return self._outputs(op, inputs, batch, host, end)

    def _computed(self, what: tuple[RunKernel, Sequence[Bundle], StepBatch | None, Arrays, float, float]) -> None:
        if self._ends_late(self._computed, what, self.processor):
            return
        op, inputs, batch, host, start, end = what
        if self.processor.late_s > start:
            start = self.processor.began(start, end)
        self.note_computed(op, start, end)
        try:
            outputs = self._outputs(op, inputs, batch, host, end)
        except Exception as error:
            self.step.fail(error)
        else:
            self.step.go(outputs)

    def note_computed(self, op: RunKernel, start: float, end: float) -> None:
        """Record a kernel that is over."""
        processor = self.processor
        kind = processor.kinds.get(op.kernel.name)
        if kind is None:
            kind = processor.kinds[op.kernel.name] = self.trace.kind(self.device, "compute", op.kernel.name)
        processor.last = self.trace.add(kind, start, end, 0.0, 0.0, processor.last)

    def _outputs(self, op: RunKernel, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays, end: float) -> Sequence[Bundle]:
        return self.world.ledger.call(self.priced.sites[op.number], inputs, batch, host, (self.task.name, self.task.steps, end))

    def collective(self, op: LinkedCollective, operands: Bundle) -> Bundle | Later:
        raise FailedPreconditionError(
            f"{self.task.name} takes part in a collective ({op.collective}), but its strategy has one replica for each step."
        )

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        if self.world.ledger.numerics == "off":
            return
        self.trace.instant(self.task.name, "observe", op.message, self.clock.now)
        self.trace.observed()
        if not all(np.isfinite(np.asarray(array)).all() for array in self.world.ledger.arrays(bundle)):
            raise InvalidArgumentError(
                f"{op.message}: a value is NaN or Inf ({self.task.name}, step {self.task.steps}, {self.clock.now:.6f} s). Lower the "
                "learning rate, clip the gradients, or look at the input."
            )

    def step_done(self) -> None:
        self._pushes = 0
        if self.counts:
            self.task.steps += 1
            self.trace.step_ended(self.task.name, self.clock.now)
        self.task.draws += self._draws
        self._draws = False
        for listener in self.world.step_ended:
            listener(self.task.name)

    # -- updating -------------------------------------------------------------------------------------------------

    def update(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        plan = self.task.plans.get(op)
        if plan is None:
            plan = self.task.plans[op] = self._plan_update(op)
        if plan.is_partial:
            return self._update_here(op, operands, 0)
        return self._push(op, operands)

    def _update_here(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands], position: int) -> Later | None:
        """Apply the part of an update on this task, keep what travels with the reply, and send the rest."""
        while position < len(op.parts):
            part = op.parts[position]
            if part.task == self.task.name:
                now = self.clock.now
                start, end = self.task.occupy(now, self.priced.costs[part.number])
                self.waits_for = "its device"
                self.clock.after(end - now, self._updated_here, (op, operands, position, start, end))
                return PENDING
            if self._travels_with_reply(part):
                assert self.errand is not None
                given = operands[position]
                assert not isinstance(given, RowOperands)  # tables are on servers
                self.errand.keep(part, self.priced, given)
            position += 1
        return self._push(op, operands)

    def _updated_here(self, what: tuple[ApplyAll, Sequence[Bundle | RowOperands], int, float, float]) -> None:
        if self._ends_late(self._updated_here, what, self.task.processor):
            return
        op, operands, position, start, end = what
        part, where = op.parts[position], (self.task.name, self.task.steps, end)
        try:
            server = self.world.servers[self.task.name]
            site, read_version = self.priced.sites[part.number], self._versions_read.get(part.group)
            server.commit(part, site, operands[position], start, end, where, read_version)
            pending = self._update_here(op, operands, position + 1)
        except Exception as error:
            self.step.fail(error)
            return
        if pending is None:
            self.step.go()

    def _push(self, op: ApplyAll, operands: Sequence[Bundle | RowOperands]) -> Later | None:
        plan = self.task.plans[op]
        if not plan.parts:
            return None
        plan.uses += 1
        if op.moves_rows:
            plan = self._plan_rows(op).plan(operands)
        self._began_s = self.clock.now
        self.waits_for = "parameter servers to confirm an update"
        errand = self.errand
        identity = self._identity(errand) if errand is not None and errand.served.knows_closures else None
        self._call = Pushing(self.world.transport, self.task, plan, self, operands, self.priced, self._versions_read, errand, identity)
        return PENDING

    def _identity(self, errand: Errand) -> PushIdentity:
        """What servers know the next push by, where each closure counts exactly once."""
        self._pushes += 1
        return errand.served.number, errand.number, errand.step, self._pushes

    def _plan_update(self, op: ApplyAll) -> CallPlan:
        """The push that this task must send to other tasks."""
        parts: list[ServerCall] = []
        for position, update in enumerate(op.parts):
            if update.task != self.task.name and not self._travels_with_reply(update):
                server, routes = self.world.tasks[update.task], self.world.routes
                part = ServerCall(self.world.servers[update.task], (), update, position)
                legs = routes.leg(self.task, server, "update", update.size_bytes), routes.word(server, self.task, "update_reply")
                parts.append(part.travel(*legs))
        return self._shown("update", CallPlan(parts, len(op.parts), len(parts)))

    def _plan_rows(self, op: ApplyAll) -> RowPushes:
        known = self.task.plans.get(("rows", op))
        if known is None:
            known = RowPushes(self.world, self.task, op, lambda position: self._travels_with_reply(op.parts[position]))
            self.task.plans["rows", op] = known
        return known

    def _shown(self, category: str, plan: CallPlan) -> CallPlan:
        """Say how the trace shows the calls of a plan."""
        plan.kind = self.trace.kind(self.task.name, category, category, {"bytes": type(plan.size_bytes)})
        return plan

    def _travels_with_reply(self, part: Apply) -> bool:
        return self.errand is not None and part.task == self.world.chief.name
