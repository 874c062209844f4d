"""Faults: what breaks, when, and for how long.

A fault fires once: at a virtual second, after a number of steps of its task (updates, of a parameter server), or as soon as
a predicate of the cluster holds (asked whenever a traced step, or an update of a server, ends; plain functions under
`ClusterCoordinator.schedule` have no steps). A fault that never fired is a warning when the cluster is closed. Faults are
data: what they do is done by the runtime that they are given to.

Where several meet: factors of slow tasks multiply, and each ends by itself. A crash of a task that is down takes the place
of the one before: what the last one says of a restart holds.

Taught in lesson 01.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

from simdist.arguments import END_S
from simdist.errors import InvalidArgumentError, SimdistError

__all__ = ["Breakable", "Fault", "Faults"]


class Breakable(Protocol):
    """What faults need of a cluster's runtime."""

    @property
    def now(self) -> float: ...
    def task(self, name: str) -> Any: ...
    def crash(self, task: Any, restart_after_s: float | None, reason: str) -> None: ...
    def slow(self, task: Any, factor: float) -> Callable[[], None]: ...
    def later(self, delay_s: float, function: Callable[[], None]) -> None: ...
    def ask(self, predicate: Callable[[Any], Any], cluster: Any) -> bool: ...
    def tell_driver(self, error: BaseException) -> None: ...
    def require_open(self, what: str) -> None: ...


@dataclass(eq=False)
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
        step_ended: the runtime's list of listeners, who are told each task whose steps or updates have become one more.
    """

    def __init__(self, runtime: Breakable, cluster: Any, step_ended: list[Callable[[Any], None]]) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.planned: list[Fault] = []
        self._waiting: list[Fault] = []  # those that steps decide about
        self._step_ended_listeners = step_ended

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
            after_steps: after so many steps of that task, of a parameter server after so many updates; or
            when: as soon as this predicate of the cluster holds at the end of some step. It may look, but not wait.
            restart_after: seconds until the process starts again, with the next incarnation; None: never.

        Raises:
            InvalidArgumentError: an unknown task, a time in the past or without an end, or not exactly one of the three triggers.
        """
        if restart_after is not None:
            _require_seconds("restart_after", restart_after, "seconds from the crash on, or None for never")
        return self._plan(Fault("crash", task, at, after_steps, when, restart_after))

    def slow(
        self,
        task: str,
        factor: float,
        at: float | None = None,
        after_steps: int | None = None,
        until: float | None = None,
    ) -> Fault:
        """Make a task's devices slower by a factor, from a moment on, until another.

        Args:
            task: as in `crash`.
            factor: on the time of everything that begins then; 2.0: half as fast. Those of several faults multiply.
            at, after_steps: as in `crash`.
            until: virtual second at which this factor goes; None: never.

        Raises:
            InvalidArgumentError: as `crash`, a factor that is not positive and finite, or an end that is not after the beginning.
        """
        if not _is_number(factor) or not 0 < factor < math.inf:
            raise InvalidArgumentError(f"factor={factor!r} must be a positive, finite number; 2.0 means half as fast.")
        if until is not None:
            _require_seconds("until", until, "a virtual second, or None for ever")
            begins = self.runtime.now if at is None else at
            if _is_number(begins) and until <= begins:
                raise InvalidArgumentError(f"until={until} s is not after the beginning, {begins:g} s. Give a later second.")
        return self._plan(Fault("slow", task, at, after_steps, None, factor=float(factor), until=until))

    def _plan(self, fault: Fault) -> Fault:
        self.runtime.require_open("A fault was planned")
        fault.task = f"{fault.task}:0" if fault.task == "chief" else fault.task
        self.runtime.task(fault.task)
        triggers = [x for x in (fault.at, fault.after_steps, fault.when) if x is not None]
        if len(triggers) != 1:
            raise InvalidArgumentError(f"{fault.kind} needs exactly one of at=, after_steps= and when=; got {len(triggers)} of them.")
        self._check_trigger(fault)
        self.planned.append(fault)
        if fault.at is not None:
            self.runtime.later(fault.at - self.runtime.now, lambda: self._fire(fault))
        else:
            self._waiting.append(fault)
            if self._step_ended not in self._step_ended_listeners:
                self._step_ended_listeners.append(self._step_ended)
        return fault

    def _check_trigger(self, fault: Fault) -> None:
        if fault.at is not None:
            _require_seconds("at", fault.at, "a virtual second")
            if fault.at < self.runtime.now:
                raise InvalidArgumentError(f"at={fault.at} s is in the past: it is {self.runtime.now:.6f} s now. Give a later second.")
        steps: Any = fault.after_steps
        if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
            raise InvalidArgumentError(f"after_steps={steps!r} must be a whole number of 1 or more.")
        if fault.when is not None and not callable(fault.when):
            raise InvalidArgumentError(f"when={fault.when!r} must be a function that takes the cluster and says whether it is time.")

    def _step_ended(self, task: Any) -> None:
        for fault in list(self._waiting):
            if fault.when is not None:
                if self._holds(fault):
                    self._fire(fault)
            elif fault.task == task.name and fault.after_steps is not None and task.progress >= fault.after_steps:
                self._fire(fault)

    def _holds(self, fault: Fault) -> bool:
        """Whether the predicate of a fault holds; one that fails is an error of the program, and is not asked again."""
        assert fault.when is not None
        try:
            return self.runtime.ask(fault.when, self.cluster)
        except Exception as error:
            self._waiting.remove(fault)
            how = str(error) if isinstance(error, SimdistError) else f"{type(error).__name__}: {error}"
            wrong = InvalidArgumentError(
                f"The predicate of {fault.describe()} failed: {how.rstrip('.')}. A predicate takes the cluster, looks (it cannot wait), "
                "and returns True or False; the fault did not fire, and the predicate is not asked again."
            )
            wrong.__cause__ = error
            self.runtime.tell_driver(wrong)
            return False

    def _fire(self, fault: Fault) -> None:
        if fault in self._waiting:
            self._waiting.remove(fault)
        if fault.until is not None and fault.until <= self.runtime.now:
            return  # it would end before it began: it never fired
        fault.fired = True
        task = self.runtime.task(fault.task)
        if fault.kind == "crash":
            self.runtime.crash(task, fault.restart_after, fault.describe())
            return
        heal = self.runtime.slow(task, fault.factor)
        if fault.until is not None:
            self.runtime.later(fault.until - self.runtime.now, heal)

    def warn_about_unfired(self) -> None:
        """Warn of each fault that never happened: the experiment was not the one that was meant."""
        for fault in self.planned:
            if not fault.fired:
                warnings.warn(f"The fault {fault.describe()} never fired: the run ended before its moment came.", stacklevel=3)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and value is not True and value is not False


def _require_seconds(name: str, value: Any, expected: str) -> None:
    if not _is_number(value) or not 0 <= value < END_S:
        raise InvalidArgumentError(f"{name}={value!r} must be 0 or more, and less than {END_S:g}: {expected}.")
