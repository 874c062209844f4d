"""What a program meets on a simulated task: devices and links that take virtual time, numbers that the ledger notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdist.errors import InvalidArgumentError, OutOfRangeError
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply, ApplyAll, CheckFinite, ReadGroups, Run
from simdist.runtime.simulated import SimulatedRuntime
from simdist.runtime.task import Exchange, Task
from simdist.simulation.kernel import Event
from simdist.simulation.streams import derive_seed
from simdist.variables.state import Group

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
        by_task: dict[str, list[tuple[Group, int]]] = {}
        for group, _, size in op.groups:
            by_task.setdefault(group.task, []).append((group, size))
        versions: dict[int, Bundle] = {id(group): group.present() for group, _ in by_task.pop(self.task.name, [])}
        if by_task:
            began = self.clock.now
            waiting = _Countdown(self.clock.event(), len(by_task))
            for name, groups in by_task.items():
                self._ask(self.runtime.tasks[name], groups, versions, waiting)
            self.clock.wait(waiting.event, "variables from parameter servers")
            self.trace.span(self.task.name, "read", "read", began, self.clock.now, bytes=sum(size for _, _, size in op.groups))
        return [versions[id(group)] for group, _, _ in op.groups]

    def _ask(self, server: Task, groups: list[tuple[Group, int]], versions: dict[int, Bundle], waiting: _Countdown) -> None:
        def serve(exchange: Exchange) -> None:
            try:
                found = {id(group): group.present() for group, _ in groups}
            except Exception as error:
                exchange.close()
                waiting.fail(error)
                return

            def arrived() -> None:
                versions.update(found)
                waiting.one_done()

            self.runtime.respond(exchange, sum(size for _, size in groups), arrived)

        self.runtime.request(self.task, server, 0, serve, waiting.fail)

    # -- computing ------------------------------------------------------------------------------------------------

    def run(self, op: Run, inputs: tuple[Bundle, ...], batch: Any, host: tuple[Any, ...]) -> tuple[Bundle, ...]:
        share = 1 / len(self.devices)
        seconds = self.task.device.seconds(op.cost.flops * share, op.cost.bytes_moved * share)
        category = "compute"
        if op.all_reduce_bytes is not None:
            seconds, category = self._ring_seconds(op.all_reduce_bytes), "collective"
        start, end = self.task.occupy(self.clock.now, seconds)
        splits = tuple(avals for _, avals in op.outputs)
        self.clock.sleep(end - self.clock.now)
        for lane in self.devices:
            self.trace.span(lane, category, op.kernel.name, start, end)
        return self.runtime.ledger.call(op.kernel, inputs, splits, batch, host, self._where())

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
                f"{op.message}: a value is NaN or Inf ({self._where()}). Lower the learning rate, clip the gradients, or look at the input."
            )

    def step_done(self) -> None:
        self.task.steps += 1
        for listener in self.runtime.after_step:
            listener(self.task)

    def _where(self) -> str:
        return f"{self.task.name}, step {self.task.steps}, {self.clock.now:.6f} s"

    # -- updating -------------------------------------------------------------------------------------------------

    def apply(self, op: ApplyAll, operands: list[Bundle]) -> None:
        remote: list[tuple[Apply, Bundle]] = []
        for part, bundle in zip(op.parts, operands, strict=True):
            if part.group.task == self.task.name:
                start, end = self.task.occupy(self.clock.now, self._seconds(self.task, part))
                self.clock.sleep(end - self.clock.now)
                self.commit(self.task, part, bundle, start, end)
            elif self.with_reply is not None and part.group.task == self.runtime.chief.name:
                self.with_reply(part, bundle)
            else:
                remote.append((part, bundle))
        if remote:
            began = self.clock.now
            waiting = _Countdown(self.clock.event(), len(remote))
            for part, bundle in remote:
                self._push(self.runtime.tasks[part.group.task], part, bundle, waiting)
            self.clock.wait(waiting.event, "parameter servers to confirm an update")
            self.trace.span(
                self.task.name,
                "update",
                "update",
                began,
                self.clock.now,
                bytes=sum(part.size_bytes for part, _ in remote),
            )

    def _push(self, server: Task, part: Apply, bundle: Bundle, waiting: _Countdown) -> None:
        source = self.task.incarnation

        def serve(exchange: Exchange) -> None:
            start, end = server.occupy(self.clock.now, self._seconds(server, part))
            self.clock.call_later(end - self.clock.now, lambda _: confirm(exchange, start, end))

        def confirm(exchange: Exchange, start: float, end: float) -> None:
            # An update of an incarnation that is dead by now is refused: nobody waits for it any more.
            if not exchange.open or not self.task.alive or self.task.incarnation != source:
                return
            try:
                self.commit(server, part, bundle, start, end)
            except Exception as error:
                exchange.close()
                waiting.fail(error)
                return
            self.runtime.respond(exchange, 0, waiting.one_done)

        self.runtime.request(self.task, server, part.size_bytes, serve, waiting.fail)

    def commit(self, server: Task, part: Apply, bundle: Bundle, start: float, end: float) -> None:
        """Make the group's next version."""
        group = part.group
        avals = tuple(cell.aval for cell in group.cells)
        (group.bundle,) = self.runtime.ledger.call(part.kernel, (group.present(), bundle), (avals,), where=self._where())
        group.version += 1
        self.trace.span(server.name, "apply", part.kernel.name, start, end, worker=self.task.name, version=group.version)

    def _seconds(self, server: Task, part: Apply) -> float:
        return server.device.seconds(part.cost.flops, part.cost.bytes_moved)


class _Countdown:
    """An event that fires when so many things have happened, or when the first has failed."""

    __slots__ = ("event", "left")

    def __init__(self, event: Event, left: int) -> None:
        self.event = event
        self.left = left

    def one_done(self) -> None:
        self.left -= 1
        if self.left == 0 and not self.event.triggered:
            self.event.succeed()

    def fail(self, error: BaseException) -> None:
        if not self.event.triggered:
            self.event.fail(error)  # pyright: ignore[reportArgumentType]
            self.event.defused = True
