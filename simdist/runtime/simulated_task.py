"""What a program meets on a simulated task: devices and links that take virtual time, numbers that the ledger notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdist.errors import InvalidArgumentError, OutOfRangeError
from simdist.program.values import Bundle
from simdist.runtime.calls import Pushing, PushPart, Reading, ReadPart
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, ReadGroups, Run
from simdist.runtime.simulated import SimulatedRuntime
from simdist.runtime.task import Task
from simdist.simulation.streams import derive_seed

__all__ = ["SimulatedTask"]


class SimulatedTask:
    """One incarnation of a task, as `TaskRuntime`.

    Args:
        runtime: the cluster's.
        task: where the program runs.
        with_reply: where given, updates of the chief's variables are handed to it instead of being sent: they travel with
            the reply of the closure, and count only if the closure completes.
        devices: lanes of the task's devices, which share each kernel evenly; empty for one device on the task's own lane.
    """

    def __init__(
        self,
        runtime: SimulatedRuntime,
        task: Task,
        with_reply: Callable[[Apply, Bundle], None] | None = None,
        devices: Sequence[str] = (),
    ) -> None:
        self.runtime = runtime
        self.task = task
        self.with_reply = with_reply
        self.devices = devices or (task.name,)
        self.clock = runtime.clock
        self.trace = runtime.trace
        self.versions_read: dict[int, int] = {}  # by group: what this step has read, to tell how stale its update is
        self._parts: dict[ReadGroups, list[ReadPart]] = {}

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
        parts = self._parts.get(op)
        if parts is None:
            parts = self._parts[op] = self._split(op)
        if not parts:
            for group, _, _ in op.groups:
                self.versions_read[id(group)] = group.version
            return [group.present() for group, _, _ in op.groups]
        began = self.clock.env._now
        reading = Reading(self.runtime, self.task, parts, len(op.groups))
        for place, (group, _, _) in enumerate(op.groups):
            if group.task == self.task.name:
                reading.found[place], reading.versions[place] = group.present(), group.version
        self.clock.wait(reading.gate, "variables from parameter servers")
        self.trace.span(self.task.name, "read", "read", began, self.clock.env._now, bytes=op.size_bytes)
        for (group, _, _), version in zip(op.groups, reading.versions, strict=True):
            self.versions_read[id(group)] = version
        return reading.found  # pyright: ignore[reportReturnType]

    def _split(self, op: ReadGroups) -> list[ReadPart]:
        """What this task must ask other tasks for."""
        parts: dict[str, ReadPart] = {}
        for place, (group, _, size) in enumerate(op.groups):
            if group.task != self.task.name:
                server, groups, before = parts.get(group.task, (self.runtime.tasks[group.task], [], 0))
                parts[group.task] = (server, [*groups, (group, place)], before + size)
        return list(parts.values())

    # -- computing ------------------------------------------------------------------------------------------------

    def run(self, op: Run, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle]:
        now = self.clock.env._now
        if op.all_reduce_bytes is not None:
            category, (start, end) = "collective", self.task.occupy_for(now, self._ring_seconds(op.all_reduce_bytes))
        else:
            category, (start, end) = "compute", self.task.occupy(now, op.cost.share(len(self.devices)))
        self.clock.sleep(end - now)
        for lane in self.devices:
            self.trace.span(lane, category, op.site.kernel.name, start, end)
        return self.runtime.ledger.call(op.site, inputs, batch, host, (self.task.name, self.task.steps, end))

    def _ring_seconds(self, size_bytes: int) -> float:
        """2 (n - 1) steps, each with the latency and an n-th of the bytes; full-duplex links are not shared."""
        network, n = self.runtime.network, len(self.devices)
        for lane in self.devices:
            self.trace.total(lane, "bytes_sent", 2 * (n - 1) / n * size_bytes)
        return 2 * (n - 1) * (network.intra_host_latency + size_bytes / n / network.intra_host_bandwidth)

    def check(self, op: CheckFinite, bundle: Bundle) -> None:
        if self.runtime.ledger.numerics == "off":
            return
        self.trace.instant(self.task.name, "observe", op.message, self.clock.now)
        self.trace.value_dependent = True
        if not all(np.isfinite(np.asarray(array)).all() for array in self.runtime.ledger.arrays(bundle)):
            raise InvalidArgumentError(
                f"{op.message}: a value is NaN or Inf ({self.task.name}, step {self.task.steps}, {self.clock.now:.6f} s). Lower the "
                "learning rate, clip the gradients, or look at the input."
            )

    def step_done(self) -> None:
        self.task.steps += 1
        for listener in self.runtime.after_step:
            listener(self.task)

    # -- updating -------------------------------------------------------------------------------------------------

    def apply(self, op: ApplyAll, operands: list[Bundle]) -> None:
        remote: list[PushPart] = []
        for part, bundle in zip(op.parts, operands, strict=True):
            home = part.group.task
            if home == self.task.name:
                start, end = self.task.occupy(self.clock.now, part.cost)
                self.clock.sleep(end - self.clock.now)
                self.commit(self.task, part, bundle, start, end)
            elif self.with_reply is not None and home == self.runtime.chief.name:
                self.with_reply(part, bundle)
            else:
                remote.append((self.runtime.tasks[home], part, bundle))
        if remote:
            began = self.clock.env._now
            self.clock.wait(Pushing(self, remote).gate, "parameter servers to confirm an update")
            size = sum([part.size_bytes for _, part, _ in remote])
            self.trace.span(self.task.name, "update", "update", began, self.clock.env._now, bytes=size)

    def commit(self, server: Task, part: Apply, bundle: Bundle, start: float, end: float) -> None:
        """Make the group's next version."""
        group = part.group
        where = (self.task.name, self.task.steps, end)
        (group.bundle,) = self.runtime.ledger.call(part.site, (group.present(), bundle), None, (), where)
        staleness = group.version - self.versions_read.get(id(group), group.version)
        group.version += 1
        self.trace.span(
            server.name,
            "apply",
            part.site.kernel.name,
            start,
            end,
            worker=self.task.name,
            version=group.version,
            staleness=staleness,
        )
