"""Faults: what breaks, when, and for how long.

A fault fires once: at a virtual second, after a number of steps of its task, or as soon as a predicate of the cluster
holds (looked at whenever a step ends). A fault that never fired is a warning when the cluster is closed. Faults are
data: what they do is done by the runtime that they are given to.

Taught in lesson 01.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from simdist.errors import InvalidArgumentError

__all__ = ["Breakable", "Fault", "Faults"]


class Breakable(Protocol):
    """What faults need of a cluster's runtime."""

    @property
    def now(self) -> float: ...
    def task(self, name: str) -> Any: ...
    def crash(self, task: Any, restart_after_s: float | None, reason: str) -> None: ...


@dataclass
class Fault:
    """One planned failure."""

    kind: str
    task: str
    at: float | None = None
    after_steps: int | None = None
    when: Callable[[Any], Any] | None = None
    restart_after: float | None = None
    factor: float = 1.0
    until: float | None = None
    fired: bool = False

    def describe(self) -> str:
        trigger = f"at={self.at}" if self.at is not None else f"after_steps={self.after_steps}" if self.when is None else "when=..."
        return f"{self.kind}({self.task!r}, {trigger})"


class Faults:
    """The faults of one cluster, as ``cluster.faults``.

    Args:
        runtime: what breaks.
        cluster: what predicates are asked about.
        later: calls a function at a virtual second, without keeping the run alive.
        after_step: the runtime's list of listeners for steps.
    """

    def __init__(
        self,
        runtime: Breakable,
        cluster: Any,
        later: Callable[[float, Callable[[], None]], None],
        after_step: list[Any],
    ) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.later = later
        self.planned: list[Fault] = []
        after_step.append(self._step_ended)

    def crash(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Callable[[Any], Any] | None = None,
        restart_after: float | None = None,
    ) -> Fault:
        """Kill a task's process: its memory is lost, its connections are reset.

        Args:
            task: "worker:1", "ps:0" or "chief:0" ("chief" for short).
            at: virtual second; or
            after_steps: after so many steps of that task; or
            when: as soon as this predicate of the cluster holds at the end of some step.
            restart_after: seconds until the process starts again, with the next incarnation; None: never.

        Raises:
            InvalidArgumentError: an unknown task, a time in the past, or not exactly one of the three triggers.
        """
        if restart_after is not None and restart_after < 0:
            raise InvalidArgumentError(f"restart_after={restart_after} is negative; give seconds from the crash on, or None for never.")
        return self._plan(Fault("crash", task, at, after_steps, when, restart_after))

    def slow(
        self,
        task: str,
        factor: float,
        at: float | None = None,
        after_steps: int | None = None,
        until: float | None = None,
    ) -> Fault:
        """Make a task's device slower by a factor, from a moment on, until another."""
        if factor <= 0:
            raise InvalidArgumentError(f"factor={factor} must be positive; 2.0 means half as fast.")
        return self._plan(Fault("slow", task, at, after_steps, None, factor=factor, until=until))

    def _plan(self, fault: Fault) -> Fault:
        fault.task = f"{fault.task}:0" if fault.task == "chief" else fault.task
        self.runtime.task(fault.task)
        triggers = [x for x in (fault.at, fault.after_steps, fault.when) if x is not None]
        if len(triggers) != 1:
            raise InvalidArgumentError(f"{fault.kind} needs exactly one of at=, after_steps= and when=; got {len(triggers)} of them.")
        if fault.at is not None and fault.at < self.runtime.now:
            raise InvalidArgumentError(f"at={fault.at} s is in the past: it is {self.runtime.now:.6f} s now. Give a later second.")
        if fault.after_steps is not None and fault.after_steps < 1:
            raise InvalidArgumentError(f"after_steps={fault.after_steps} must be 1 or more.")
        self.planned.append(fault)
        if fault.at is not None:
            self.later(fault.at - self.runtime.now, lambda: self._fire(fault))
        return fault

    def _step_ended(self, task: Any) -> None:
        for fault in [fault for fault in self.planned if not fault.fired]:
            reached = fault.after_steps is not None and fault.task == task.name and task.steps >= fault.after_steps
            if reached or (fault.when is not None and fault.when(self.cluster)):
                self._fire(fault)

    def _fire(self, fault: Fault) -> None:
        if fault.fired:
            return
        fault.fired = True
        task = self.runtime.task(fault.task)
        if fault.kind == "crash":
            self.runtime.crash(task, fault.restart_after, fault.describe())
            return
        task.slowness = fault.factor
        if fault.until is not None:
            self.later(max(0.0, fault.until - self.runtime.now), lambda: setattr(task, "slowness", 1.0))

    def warn_about_unfired(self) -> None:
        """Warn of each fault that never happened: the experiment was not the one that was meant."""
        for fault in self.planned:
            if not fault.fired:
                warnings.warn(f"The fault {fault.describe()} never fired: the run ended before its moment came.", stacklevel=3)
