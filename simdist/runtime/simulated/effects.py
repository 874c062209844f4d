"""What faults do to the simulated cluster: `Effects` on `SimulatedRuntime`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.faults.base import Heal
from simdist.runtime.simulated.engine import SimulatedRuntime

__all__ = ["SimulatedEffects"]


class SimulatedEffects:
    """The effects that faults lay over a simulated cluster.

    Args:
        runtime: the cluster's.
        cluster: what predicates are asked about.
    """

    def __init__(self, runtime: SimulatedRuntime, cluster: Any) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.step_ended = runtime.step_ended

    @property
    def now(self) -> float:
        return self.runtime.now

    def require_task(self, name: str) -> str:
        return self.runtime.task(name).name

    def require_open(self, what: str) -> None:
        self.runtime.require_open(what)

    def progress(self, task: str) -> int:
        return self.runtime.task(task).progress

    def crash(self, task: str, restart_after_s: float | None, reason: str) -> None:
        self.runtime.crash(self.runtime.task(task), restart_after_s, reason)

    def slow(self, task: str, factor: float) -> Heal:
        return self.runtime.slow(self.runtime.task(task), factor)

    def pause(self, task: str) -> Heal:
        raise NotImplementedError(f"{task} was to pause; this engine's tasks cannot.")

    def cut(self, source: str, target: str) -> Heal:
        raise NotImplementedError(f"Messages from {source} to {target} were to be lost; this engine loses none.")

    def note(self, category: str, task: str, text: str, **facts: Any) -> None:
        self.runtime.trace.instant(task, category, text, self.runtime.now, **facts)

    def later(self, delay_s: float, function: Callable[[], None]) -> None:
        self.runtime.later(delay_s, function)

    def ask(self, predicate: Callable[[Any], Any]) -> bool:
        return self.runtime.ask(predicate, self.cluster)

    def tell_driver(self, error: BaseException) -> None:
        self.runtime.tell_driver(error)
