"""An engine that suffers faults and does nothing else: it keeps a list of what was done to it, and its clock is moved by hand."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Any

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.faults.effects import Heal

__all__ = ["FakeEffects"]


class FakeEffects:
    """`Effects`.

    Attributes:
        laid: the effects in force, in the order in which they were laid.
        crashes, lost_hosts: (second, task, restart after, reason).
        lost_disks: (second, task) of crashes that take the disk away.
        preemptions: (second, task, notice, restart after, reason).
        torn: writes to come that are torn, by task.
        gone: tasks that take no steps any more.
        notes: (second, category, task, facts).
        told: errors for the driver.
    """

    def __init__(self, *tasks: str, now: float = 0.0) -> None:
        self.now = now
        self.tasks = tasks or ("chief:0", "worker:0", "worker:1", "ps:0")
        self.is_open = True
        self.expects_silence = False
        self.is_disturbed = False
        self.silences = 0
        self.gone: set[str] = set()
        self.lost_hosts: list[tuple[float, str, float | None, str]] = []
        self.lost_disks: list[tuple[float, str]] = []
        self.preemptions: list[tuple[float, str, float, float | None, str]] = []
        self.torn: Counter[str] = Counter()
        self.laid: list[tuple[Any, ...]] = []
        self.crashes: list[tuple[float, str, float | None, str]] = []
        self.notes: list[tuple[float, str, str, dict[str, Any]]] = []
        self.told: list[BaseException] = []
        self.step_ended: list[Callable[[str], None]] = []
        self.steps: Counter[str] = Counter()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    def require_task(self, name: str) -> str:
        if name not in self.tasks:
            raise InvalidArgumentError(f"no task {name}")
        return name

    def require_open(self, what: str) -> None:
        if not self.is_open:
            raise FailedPreconditionError(f"{what}: closed")

    def progress(self, task: str) -> int:
        return self.steps[task]

    def crash(self, task: str, restart_after_s: float | None, reason: str, keep_disk: bool) -> None:
        self.crashes.append((self.now, task, restart_after_s, reason))
        if not keep_disk:
            self.lost_disks.append((self.now, task))

    def preempt(self, task: str, notice_s: float, restart_after_s: float | None, reason: str) -> None:
        self.preemptions.append((self.now, task, notice_s, restart_after_s, reason))

    def fill_disk(self, task: str) -> Heal:
        return self._lay("fill_disk", task)

    def slow_disk(self, task: str, factor: float) -> Heal:
        return self._lay("slow_disk", task, factor)

    def tear_writes(self, task: str, writes: int) -> None:
        self.torn[task] += writes

    def lose_host(self, task: str, restart_after_s: float | None, reason: str) -> None:
        self.lost_hosts.append((self.now, task, restart_after_s, reason))

    def slow(self, task: str, factor: float) -> Heal:
        return self._lay("slow", task, factor)

    def pause(self, task: str) -> Heal:
        return self._lay("pause", task)

    def cut(self, source: str, target: str) -> Heal:
        return self._lay("cut", source, target)

    def drop(self, source: str, target: str, kinds: frozenset[str], probability: float) -> Heal:
        return self._lay("drop", source, target, kinds, probability)

    def delay(self, source: str, target: str, kinds: frozenset[str], probability: float, delay_s: float, spread_s: float) -> Heal:
        return self._lay("delay", source, target, kinds, probability, delay_s, spread_s)

    def duplicate(self, source: str, target: str, kinds: frozenset[str], probability: float) -> Heal:
        return self._lay("duplicate", source, target, kinds, probability)

    def slow_link(self, source: str, target: str, bandwidth_factor: float, latency_factor: float) -> Heal:
        return self._lay("slow_link", source, target, bandwidth_factor, latency_factor)

    def note(self, category: str, task: str, text: str, **facts: Any) -> None:
        self.notes.append((self.now, category, task, facts))

    def silent_until(self, second: float) -> None:
        """Nobody is patient here."""

    def expect_silence(self) -> None:
        self.expects_silence = True

    def disturb(self) -> None:
        self.is_disturbed = True

    def is_over(self, task: str | None) -> bool:
        return not self.is_open or task in self.gone

    def at(self, second: float, function: Callable[[], None], awaited: bool = False) -> None:
        self._serial += 1
        heapq.heappush(self._due, (second, self._serial, function))

    def ask(self, predicate: Callable[[Any], Any]) -> bool:
        return bool(predicate(self))

    def tell_driver(self, error: BaseException) -> None:
        self.told.append(error)

    def _lay(self, *effect: Any) -> Heal:
        token = effect  # equal effects may lie there twice: one end takes one of them away
        self.laid.append(token)
        return lambda: self.laid.remove(token)

    # -- what a test does -----------------------------------------------------------------------------------------

    def move_to(self, time_s: float) -> FakeEffects:
        """Do all that is due up to a second."""
        while self._due and self._due[0][0] <= time_s:
            self.now, _, function = heapq.heappop(self._due)
            function()
        self.now = time_s
        return self

    def step(self, task: str, count: int = 1) -> FakeEffects:
        """Steps of a task end."""
        for _ in range(count):
            self.steps[task] += 1
            for listener in self.step_ended:
                listener(task)
        return self
