"""What a program meets on a simulated task: devices and links that take virtual time, numbers that the ledger notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.program.values import Bundle
from simdist.randomness import derive_seed
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, Meeting, ReadGroups, Run
from simdist.runtime.simulated.calls import Part, Plan, Pushing, Reading
from simdist.runtime.simulated.engine import SimulatedRuntime
from simdist.runtime.simulated.processor import Processor
from simdist.runtime.simulated.task import Task
from simdist.variables.state import Group

__all__ = ["SimulatedTask"]


class SimulatedTask:
    """One incarnation of a task, as `TaskRuntime`.

    Args:
        runtime: the cluster's.
        task: where the program runs.
        with_reply: where given, updates of the chief's variables are handed to it instead of being sent: they travel with
            the reply of the closure, and count only if the closure completes.
        processor: which of the task's computes; default its own.
    """

    def __init__(
        self,
        runtime: SimulatedRuntime,
        task: Task,
        with_reply: Callable[[Apply, Bundle], None] | None = None,
        processor: Processor | None = None,
    ) -> None:
        self.runtime = runtime
        self.task = task
        self.with_reply = with_reply
        self.processor = processor or task.processor
        self.place = self.processor.place
        self.clock = runtime.clock
        self.trace = runtime.trace
        self._versions_read: dict[int, int] = {}  # by group: what this step has read last

    def next_batch(self, iterator: Any) -> Any:
        try:
            return iterator.next_batch()
        except StopIteration:
            raise OutOfRangeError(
                f"The dataset of {self.task.name} has run out. Ask for fewer steps, or end the dataset with .repeat()."
            ) from None

    def random_key(self, salt: int) -> Any:
        seed = derive_seed(self.runtime.seed, self.task.name, self.task.steps, salt)
        return np.array([seed & 0xFFFFFFFF, 0], np.uint32)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, op: ReadGroups) -> list[Bundle]:
        plan = self.task.plans.get(op)
        if plan is None:
            plan = self.task.plans[op] = self._plan_read(op)
        if not plan.parts:
            self._versions_read = {id(group): group.version for group, _, _ in op.groups}
            return [group.present() for group, _, _ in op.groups]
        began = self.clock.env._now
        reading = Reading(self.runtime, self.task, plan)
        if len(plan.parts) < plan.count:
            for place, (group, _, _) in enumerate(op.groups):
                if group.task == self.task.name:
                    reading.found[place], reading.versions[place] = group.present(), group.version
        self.clock.wait(reading.gate, "variables from parameter servers")
        self.trace.span(self.task.name, "read", "read", began, self.clock.env._now, bytes=plan.size_bytes)
        self._versions_read = dict(zip(op.group_ids, reading.versions, strict=True))
        return reading.found  # pyright: ignore[reportReturnType]

    def _plan_read(self, op: ReadGroups) -> Plan:
        """What this task must ask other tasks for."""
        wanted: dict[str, tuple[list[tuple[Group, int]], int]] = {}
        for place, (group, _, size) in enumerate(op.groups):
            if group.task != self.task.name:
                groups, before = wanted.get(group.task, ([], 0))
                wanted[group.task] = ([*groups, (group, place)], before + size)
        parts = [self._part(name, tuple(groups), None, size) for name, (groups, size) in wanted.items()]
        return Plan(parts, len(op.groups))

    def _part(self, server_name: str, groups: tuple[tuple[Group, int], ...], update: Apply | None, size_bytes: int, place: int = 0) -> Part:
        runtime, client, server = self.runtime, self.task, self.runtime.tasks[server_name]
        route = runtime.route(server, client) if update is None else runtime.route(client, server)
        counted = (server.name if update is None else client.name, "bytes_sent")
        latencies = runtime.latency(client, server), runtime.latency(server, client)
        return Part(server, groups, update, place, size_bytes, route, counted, *latencies)

    # -- computing ------------------------------------------------------------------------------------------------

    def run(self, op: Run, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle]:
        now = self.clock.env._now
        start, end = self.processor.occupy(now, op.cost)
        if end > now:
            self.clock.sleep(end - now)
            self.trace.span(self.place, "compute", op.site.kernel.name, start, end)
        return self.runtime.ledger.call(op.site, inputs, batch, host, (self.task.name, self.task.steps, end))

    def meet(self, op: Meeting, operands: Bundle) -> Bundle:
        raise FailedPreconditionError(
            f"{self.task.name} was to meet other replicas ({op.exchange}), but its strategy has one replica for each step."
        )

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        if self.runtime.ledger.numerics == "off":
            return
        self.trace.instant(self.task.name, "observe", op.message, self.clock.now)
        self.trace.observed()
        if not all(np.isfinite(np.asarray(array)).all() for array in self.runtime.ledger.arrays(bundle)):
            raise InvalidArgumentError(
                f"{op.message}: a value is NaN or Inf ({self.task.name}, step {self.task.steps}, {self.clock.now:.6f} s). Lower the "
                "learning rate, clip the gradients, or look at the input."
            )

    def step_done(self) -> None:
        self.task.steps += 1
        for listener in self.runtime.step_ended:
            listener(self.task.name)

    # -- updating -------------------------------------------------------------------------------------------------

    def apply(self, op: ApplyAll, operands: list[Bundle]) -> None:
        plan = self.task.plans.get(op)
        if plan is None:
            plan = self.task.plans[op] = self._plan_update(op)
        if len(plan.parts) < plan.count:
            for part, bundle in zip(op.parts, operands, strict=True):
                self._apply_here(part, bundle)
        if plan.parts:
            began = self.clock.env._now
            self.clock.wait(Pushing(self, plan, operands).gate, "parameter servers to confirm an update")
            self.trace.span(self.task.name, "update", "update", began, self.clock.env._now, bytes=plan.size_bytes)

    def _plan_update(self, op: ApplyAll) -> Plan:
        """What this task must send to other tasks."""
        parts = [
            self._part(part.group.task, (), part, part.size_bytes, place)
            for place, part in enumerate(op.parts)
            if part.group.task != self.task.name and not self._travels_with_reply(part)
        ]
        return Plan(parts, len(op.parts))

    def _travels_with_reply(self, part: Apply) -> bool:
        return self.with_reply is not None and part.group.task == self.runtime.chief.name

    def _apply_here(self, part: Apply, bundle: Bundle) -> None:
        if part.group.task == self.task.name:
            start, end = self.task.occupy(self.clock.now, part.cost)
            self.clock.sleep(end - self.clock.now)
            self.commit(self.task, part, bundle, start, end)
        elif self.with_reply is not None and part.group.task == self.runtime.chief.name:
            self.with_reply(part, bundle)

    def commit(self, server: Task, part: Apply, bundle: Bundle, start: float, end: float) -> None:
        """Make the group's next version."""
        group = part.group
        site = part.site
        (group.bundle,) = self.runtime.ledger.call(site, (group.present(), bundle), None, (), (self.task.name, self.task.steps, end))
        group.version = version = group.version + 1
        server.updates += 1
        read = self._versions_read.get(id(group))
        if read is None:
            self.trace.span(server.name, "apply", site.kernel.name, start, end, worker=self.task.name, version=version)
        else:
            # How stale the update is can be told from these two: version - 1 - read_version.
            self.trace.span(server.name, "apply", site.kernel.name, start, end, worker=self.task.name, version=version, read_version=read)
