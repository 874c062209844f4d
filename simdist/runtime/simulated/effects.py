"""The effects of faults on the simulated machines: `Effects` on a `World`.

Each effect is a token: where several lie over one target, what is in force follows from all of them, and the end of one is not the
end of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.faults.effects import Heal
from simdist.runtime.simulated.disturbances import Narrowing
from simdist.runtime.simulated.world import World
from simdist.simulation.dead_code import require_not_dead
from simdist.trace.records import NO_CAUSE

__all__ = ["SimulatedEffects"]


class SimulatedEffects:
    """As `Effects`.

    Args:
        world: what faults touch.
        cluster: what predicates are asked about.

    What makes tasks silent, or messages late, says so to the world by itself: the kind of fault that lays it may not have announced it.
    """

    def __init__(self, world: World, cluster: object) -> None:
        self.world = world
        self.cluster = cluster
        self.step_ended = world.step_ended
        self.silences = 0

    @property
    def now(self) -> float:
        return self.world.now

    def require_task(self, name: str) -> str:
        if name in self.world.left:
            raise InvalidArgumentError(f"{name} was removed from the cluster, so nothing can happen to it. Name a task of cluster.tasks.")
        return self.world.task(name).name

    def require_open(self, what: str) -> None:
        require_not_dead()
        self.world.clock.require_open(what)

    def progress(self, task: str) -> int:
        return self.world.task(task).progress

    def silent_until(self, second: float) -> None:
        self.world.silence.ends_s = max(self.world.silence.ends_s, second)

    def disturb(self) -> None:
        self.world.disturb()

    def is_over(self, task: str | None) -> bool:
        there = None if task is None else self.world.task(task)
        return self.world.clock.is_closed or not (there is None or there.alive or there.restart_plan is not None)

    def expect_silence(self) -> None:
        self.world.silence.expect()

    def crash(self, task: str, restart_after_s: float | None, reason: str, keep_disk: bool = True) -> None:
        self.world.crash(self.world.task(task), restart_after_s, reason, keep_disk)

    def lose_host(self, task: str, restart_after_s: float | None, reason: str) -> None:
        self._fall_silent()
        self.world.lose_host(self.world.task(task), restart_after_s, reason)

    def preempt(self, task: str, notice_s: float, restart_after_s: float | None, reason: str) -> None:
        self.world.preemptions.preempt(self.world.task(task), notice_s, restart_after_s, reason)

    def fill_disk(self, task: str) -> Heal:
        return self.world.disk(task).disk.fill()

    def slow_disk(self, task: str, factor: float) -> Heal:
        return self.world.disk(task).disk.slow_by(factor)

    def tear_writes(self, task: str, writes: int) -> None:
        self.world.disk(task).disk.torn_writes += writes

    def slow(self, task: str, factor: float) -> Heal:
        there, planned = self.world.task(task), self.world.servers[task].planned
        heal = planned.at_another_pace(lambda: there.slow_by(factor))
        return lambda: planned.at_another_pace(heal)

    def pause(self, task: str) -> Heal:
        self._fall_silent()
        return self.world.silence.pause(self.world.task(task))

    def cut(self, source: str, target: str) -> Heal:
        self._fall_silent()
        return self.world.silence.cut(self.world.task(source), self.world.task(target))

    def drop(self, source: str, target: str, kinds: frozenset[str], probability: float) -> Heal:
        self._fall_silent()
        return self._tell_listeners(self.world.disturbances.drop((source, target), kinds, probability))

    def delay(self, source: str, target: str, kinds: frozenset[str], probability: float, delay_s: float, spread_s: float) -> Heal:
        self._fall_silent()
        return self._tell_listeners(self.world.disturbances.delay((source, target), kinds, probability, delay_s, spread_s))

    def duplicate(self, source: str, target: str, kinds: frozenset[str], probability: float) -> Heal:
        self.disturb()
        return self.world.disturbances.duplicate((source, target), kinds, probability)

    def slow_link(self, source: str, target: str, bandwidth_factor: float, latency_factor: float) -> Heal:
        self.disturb()
        heal = self.world.disturbances.slow((source, target), Narrowing(bandwidth_factor, latency_factor))
        self.world.transport.narrow(self.world.task(source), self.world.task(target))
        return self._tell_listeners(heal)

    def _fall_silent(self) -> None:
        self.silences += 1
        self.expect_silence()
        self.disturb()

    def _tell_listeners(self, heal: Heal) -> Heal:
        """Who listens for heartbeats may hear less, or more."""
        self.world.silence.tell()

        def heal_and_tell() -> None:
            heal()
            self.world.silence.tell()

        return heal_and_tell

    def note(self, category: str, task: str, text: str, **facts: object) -> None:
        number = self.world.trace.instant(task, category, text, self.world.now, cause=NO_CAUSE, **facts)
        if task in self.world.tasks and self.world.tasks[task].alive:  # what is down is missed, and comes back, because of its crash
            self.world.tasks[task].trouble = number

    def at(self, second: float, function: Callable[[], None], awaited: bool = False) -> None:
        self.world.clock.at(second, function, is_daemon=not awaited)

    def ask(self, predicate: Callable[[Any], object]) -> bool:
        with self.world.clock.asking():
            return bool(predicate(self.cluster))

    def tell_driver(self, error: BaseException) -> None:
        self.world.tell_driver(error)
