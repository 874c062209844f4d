"""`Faults`: what is to break in one cluster, as ``cluster.faults``.

A fault fires once: at a virtual second, after a number of steps of its task (updates, of a parameter server), or as soon as
a predicate of the cluster holds (asked whenever a traced step, or an update of a server, ends; plain functions under
`ClusterCoordinator.schedule` have no steps). One whose end has passed when it would begin never fires. A fault that never
fired is a warning when the cluster is closed.

Invariant: what is refused is not planned.

Taught in lesson 01.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from simdist.errors import InvalidArgumentError, SimdistError
from simdist.faults.base import Effects, Fault, Heal
from simdist.faults.network import Partition
from simdist.faults.process import Crash, Pause, Slow
from simdist.faults.triggers import Trigger

__all__ = ["Faults"]

AnyFault = TypeVar("AnyFault", bound=Fault)
Predicate = Callable[[Any], Any]


class Faults:
    """The faults of one cluster.

    Args:
        effects: what they may touch.

    Attributes:
        planned: all of them, in the order in which they were planned.
    """

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.planned: list[Fault] = []
        self._waiting: tuple[Fault, ...] = ()  # those that steps decide about

    def crash(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        restart_after: float | None = None,
    ) -> Crash:
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
        return self.plan(Crash(task, restart_after, trigger=Trigger(at, after_steps, when)))

    def slow(
        self,
        task: str,
        factor: float,
        at: float | None = None,
        after_steps: int | None = None,
        until: float | None = None,
        when: Predicate | None = None,
    ) -> Slow:
        """Make a task's devices slower by a factor, from a moment on, until another.

        Args:
            task: as in `crash`.
            factor: on the time of everything that begins then; 2.0: half as fast. Those of several faults multiply.
            at, after_steps, when: as in `crash`.
            until: virtual second at which this factor goes; None: never.

        Raises:
            InvalidArgumentError: as `crash`, a factor that is not positive and finite, or an end that is not after the beginning.
        """
        return self.plan(Slow(task, factor, until=until, trigger=Trigger(at, after_steps, when)))

    def pause(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
    ) -> Pause:
        """Let a task's process stand still, from a moment on, until another: it is alive, and silent.

        Args:
            task, at, after_steps, when: as in `crash`.
            until: virtual second at which it goes on, not knowing that it was away; None: never.

        Raises:
            InvalidArgumentError: as `crash`, or an end that is not after the beginning.
        """
        return self.plan(Pause(task, until=until, trigger=Trigger(at, after_steps, when)))

    def partition(
        self,
        a: str | Sequence[str],
        b: str | Sequence[str],
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
        one_way: bool = False,
    ) -> Partition:
        """Lose all messages between two sides, from a moment on, until another. Nobody is told.

        Args:
            a, b: the sides: each the name of a task, or a list of names.
            at, when: as in `crash`.
            after_steps: as in `crash`, of the first task of `a`.
            until: virtual second at which messages arrive again; None: never.
            one_way: only what `a` sends to `b` is lost.

        Raises:
            InvalidArgumentError: as `crash`, an end that is not after the beginning, an empty side, or a task on both.
        """
        return self.plan(Partition(a, b, one_way, until=until, trigger=Trigger(at, after_steps, when)))

    def plan(self, fault: AnyFault) -> AnyFault:
        """Plan a fault of any kind.

        Returns:
            The same fault; it tells later whether it fired.

        Raises:
            InvalidArgumentError: it makes no sense here, its class has no name, or it is planned already.
            TypeError: it is no fault.
            FailedPreconditionError: the cluster is closed.
        """
        if not isinstance(cast("object", fault), Fault):
            raise TypeError(f"plan takes a fault, such as Crash('worker:1', trigger=Trigger(at=0.5)); got {type(fault).__name__}.")
        self.effects.require_open("A fault was planned")
        if not fault.kind:
            raise InvalidArgumentError(f"{type(fault).__name__} has no name. Write class {type(fault).__name__}(..., kind='...').")
        if fault.planned:
            raise InvalidArgumentError(f"{fault.describe()} is planned already, and a fault fires once. Make another one.")
        fault.check(self.effects)
        if fault.silences:
            self.effects.expect_silence()
        fault.planned = True
        self.planned.append(fault)
        if fault.trigger.at is not None:
            self.effects.later(fault.trigger.at - self.effects.now, lambda: self._begin(fault))
        else:
            self._waiting = (*self._waiting, fault)
            if self._step_ended not in self.effects.step_ended:
                self.effects.step_ended.append(self._step_ended)
        return fault

    def warn_about_unfired(self) -> None:
        """Warn of each fault that never happened: the experiment was not the one that was meant."""
        for fault in self.planned:
            if not fault.fired:
                warnings.warn(f"The fault {fault.describe()} never fired: the run ended before its moment came.", stacklevel=3)

    def _step_ended(self, task: str) -> None:
        for fault in self._waiting:
            if not fault.fired and self._is_time(fault, task):
                self._forget(fault)
                self._begin(fault)

    def _is_time(self, fault: Fault, task: str) -> bool:
        if fault.trigger.when is not None:
            return self._holds(fault, fault.trigger.when)
        steps = fault.trigger.after_steps
        return steps is not None and fault.tasks[0] == task and self.effects.progress(task) >= steps

    def _holds(self, fault: Fault, predicate: Predicate) -> bool:
        """Whether the predicate of a fault holds; one that fails is an error of the program, and is not asked again."""
        try:
            return self.effects.ask(predicate)
        except Exception as error:
            self._forget(fault)
            how = str(error) if isinstance(error, SimdistError) else f"{type(error).__name__}: {error}"
            wrong = InvalidArgumentError(
                f"The predicate of {fault.describe()} failed: {how.rstrip('.')}. A predicate takes the cluster, looks (it cannot wait), "
                "and returns True or False; the fault did not fire, and the predicate is not asked again."
            )
            wrong.__cause__ = error
            self.effects.tell_driver(wrong)
            return False

    def _forget(self, fault: Fault) -> None:
        """Steps decide about it no more."""
        self._waiting = tuple(other for other in self._waiting if other is not fault)

    def _begin(self, fault: Fault) -> None:
        ends_s = fault.ends_s
        if ends_s is not None and ends_s <= self.effects.now:
            return  # it would end before it began: it never fired
        fault.fired = True
        heal = fault.begin(self.effects)
        if heal is not None and ends_s is not None:
            self.effects.later(ends_s - self.effects.now, lambda: self._end(fault, heal), awaited=fault.silences)

    def _end(self, fault: Fault, heal: Heal) -> None:
        fault.healed = True
        heal()
