"""`FaultPlan`: what is to break, and when, as plain data; for a cluster to come, or as ``cluster.faults`` for one that is there.

Invariant: what is refused is not planned.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from simdist.errors import InvalidArgumentError
from simdist.faults.base import Fault
from simdist.faults.links import Delay, Drop, Duplicate, SlowLink
from simdist.faults.network import Partition
from simdist.faults.plan_json import faults_from_json, faults_to_json
from simdist.faults.process import Crash, LoseHost, Pause, Slow
from simdist.faults.table import as_html, as_text, rows_of
from simdist.faults.triggers import Trigger

__all__ = ["FaultPlan"]

AnyFault = TypeVar("AnyFault", bound=Fault)
Predicate = Callable[[Any], Any]
Side = str | Sequence[str]


class FaultPlan:
    """Faults, in the order in which they were planned.

    Attributes:
        planned: all of them.

    Example:
        >>> plan = FaultPlan()
        >>> _ = plan.lose_host("worker:1", at=0.5, restart_after=2.0)
        >>> _ = plan.drop("worker:0", "ps:0", kind="update", after_steps=10, until=3.0, probability=0.5)
        >>> plan
        fault                               begins          ends   state    fired  healed
        lose_host('worker:1')     at=0.5          -     pending  -      -
          restart_after=2.0
        drop('worker:0', 'ps:0')            after_steps=10  3 s    pending  -      -
          messages='update', probability=0.5

        It can be kept as text, and planned for any cluster that has these tasks:

        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 2, "ps": 1})
        >>> cluster.faults.extend(FaultPlan.from_json(plan.to_json()))
        >>> [fault.describe() for fault in cluster.faults]
        ["lose_host('worker:1', at=0.5)", "drop('worker:0', 'ps:0', after_steps=10)"]
    """

    def __init__(self) -> None:
        self.planned: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.planned)

    def __len__(self) -> int:
        return len(self.planned)

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
            task: "worker:1", "ps:0" or "chief:0" ("chief" for short; so "evaluator").
            at: virtual second; or
            after_steps: after so many steps of that task, of a parameter server after so many updates; or
            when: as soon as this predicate of the cluster holds at the end of some step. It may look, but not wait.
            restart_after: seconds until the process starts again, with the next incarnation; None: never.

        Raises:
            InvalidArgumentError: an unknown task, a time in the past or without an end, or not exactly one of the three triggers.
        """
        return self.add(Crash(task, restart_after, trigger=Trigger(at, after_steps, when)))

    def lose_host(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        restart_after: float | None = None,
    ) -> LoseHost:
        """Lose a task's machine: its memory is lost, and no task is notified. Others find it out by missing heartbeats, or time-outs.

        Args:
            task, at, after_steps, when: as in `crash`; not the chief, whose program this is.
            restart_after: seconds until the process starts again elsewhere, with the next incarnation; None: never.

        Raises:
            InvalidArgumentError: as `crash`, or the chief.
        """
        return self.add(LoseHost(task, restart_after, trigger=Trigger(at, after_steps, when)))

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
        return self.add(Slow(task, factor, until=until, trigger=Trigger(at, after_steps, when)))

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
        return self.add(Pause(task, until=until, trigger=Trigger(at, after_steps, when)))

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
        """Lose all messages between two sides, from a moment on, until another. No task is notified.

        Args:
            a, b: the sides: each the name of a task, or a list of names.
            at, when: as in `crash`.
            after_steps: as in `crash`, of the first task of `a`.
            until: virtual second at which messages arrive again; None: never.
            one_way: only what `a` sends to `b` is lost.

        Raises:
            InvalidArgumentError: as `crash`, an end that is not after the beginning, an empty side, or a task on both.
        """
        return self.add(Partition(a, b, one_way, until=until, trigger=Trigger(at, after_steps, when)))

    def drop(
        self,
        source: Side,
        target: Side,
        kind: str | None = None,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
        probability: float = 1.0,
    ) -> Drop:
        """Lose messages that one side sends to the other, from a moment on, until another. No task is notified.

        Args:
            source, target: who sends, and to whom: each the name of a task, or a list of names.
            kind: which messages: "read", "update", "closure" (together "request"), "read_reply", "update_reply", "closure_reply"
                (together "reply"), "heartbeat", "notice", "reset", "copy" or "collective"; None: all.
            at, when: as in `crash`.
            after_steps: as in `crash`, of the first task of `source`.
            until: virtual second at which messages arrive again; None: never.
            probability: that a message is lost, drawn for each from the seed of the cluster.

        Raises:
            InvalidArgumentError: as `crash`, an unknown kind, no probability, an end that is not after the beginning, or a task that is to
                send to itself.
        """
        return self.add(Drop(source, target, messages=kind, probability=probability, until=until, trigger=Trigger(at, after_steps, when)))

    def delay(
        self,
        source: Side,
        target: Side,
        seconds: float,
        spread: float = 0.0,
        kind: str | None = None,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
        probability: float = 1.0,
    ) -> Delay:
        """Let messages that one side sends to the other come later, from a moment on, until another.

        Args:
            source, target, kind, at, after_steps, when, until: as in `drop`.
            seconds: by how much. Delays of several faults add up.
            spread: up to so many seconds more, drawn for each message; messages may overtake each other then.
            probability: that a message is late.

        Raises:
            InvalidArgumentError: as `drop`, or a number of seconds that is negative or has no end.
        """
        fault = Delay(
            source, target, seconds, spread, messages=kind, probability=probability, until=until, trigger=Trigger(at, after_steps, when)
        )
        return self.add(fault)

    def duplicate(
        self,
        source: Side,
        target: Side,
        kind: str | None = None,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
        probability: float = 1.0,
    ) -> Duplicate:
        """Send messages of one side to the other twice, from a moment on, until another. Each takes effect once.

        Args:
            source, target, kind, at, after_steps, when, until: as in `drop`.
            probability: that a message is sent twice.

        Raises:
            InvalidArgumentError: as `drop`.
        """
        return self.add(
            Duplicate(source, target, messages=kind, probability=probability, until=until, trigger=Trigger(at, after_steps, when))
        )

    def slow_link(
        self,
        source: Side,
        target: Side,
        bandwidth_factor: float = 1.0,
        latency_factor: float = 1.0,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
    ) -> SlowLink:
        """Make the way from one side to the other slower, from a moment on, until another. Factors of several faults multiply.

        Args:
            source, target, at, after_steps, when, until: as in `drop`.
            bandwidth_factor: what two tasks can send is divided by it, also of what is on its way; 1 or more.
            latency_factor: on the latency of what sets out meanwhile; 1 or more.

        Raises:
            InvalidArgumentError: as `crash`, a factor below 1, an end that is not after the beginning, or a task that is to send to itself.
        """
        fault = SlowLink(source, target, bandwidth_factor, latency_factor, until=until, trigger=Trigger(at, after_steps, when))
        return self.add(fault)

    def add(self, fault: AnyFault) -> AnyFault:
        """Plan a fault of any kind.

        Returns:
            The same fault; it tells later when it fired.

        Raises:
            InvalidArgumentError: it makes no sense here, its class has no name, or it is planned already.
            TypeError: it is no fault.
        """
        self._check(fault)
        fault.planned = True
        self.planned.append(fault)
        return fault

    def extend(self, plan: FaultPlan) -> None:
        """Plan what another plan has, all of it or, where something is refused, nothing; the other one stays as it is.

        Raises:
            InvalidArgumentError: one of its faults makes no sense here.
            TypeError: it is no plan.
        """
        if not isinstance(cast("object", plan), FaultPlan):
            raise TypeError(f"extend takes a FaultPlan; got {type(plan).__name__}. A single fault is planned by add.")
        faults = [copy_of(fault) for fault in plan]
        for fault in faults:
            self._check(fault)
        for fault in faults:
            self.add(fault)

    def state(self, fault: Fault) -> str:
        """What has become of a fault: "pending", "fired" (and not healed), "healed", or "never": it did not fire, and cannot any more."""
        if fault.fired:
            return "healed" if fault.healed else "fired"
        return "never" if fault.is_missed else "pending"

    def to_json(self) -> str:
        """The plan as text: each fault with its kind, its figures and its trigger, not with what has become of it.

        Raises:
            InvalidArgumentError: a fault begins when a predicate holds, which has no text.
        """
        return faults_to_json(self.planned)

    @staticmethod
    def from_json(text: str) -> FaultPlan:
        """The plan of a text that `to_json` made. It belongs to no cluster yet: ``cluster.faults.extend(plan)``.

        Raises:
            InvalidArgumentError: it is no such text, or has a kind, a figure or a version that is not known.
        """
        plan = FaultPlan()
        for fault in faults_from_json(text):
            plan.add(fault)
        return plan

    def _check(self, fault: Fault) -> None:
        """Refuse what cannot be planned."""
        require_plannable(fault)
        fault.check()

    def __repr__(self) -> str:
        return as_text(rows_of(self.planned, self.state))

    def _repr_html_(self) -> str:
        return as_html(rows_of(self.planned, self.state))


def require_plannable(fault: Fault) -> None:
    """Refuse what is no fault, has no name, or is planned already.

    Raises:
        TypeError, InvalidArgumentError: it is so.
    """
    if not isinstance(cast("object", fault), Fault):
        raise TypeError(f"add takes a fault, such as Crash('worker:1', trigger=Trigger(at=0.5)); got {type(fault).__name__}.")
    if not fault.kind:
        raise InvalidArgumentError(f"{type(fault).__name__} has no name. Write class {type(fault).__name__}(..., kind='...').")
    if fault.planned:
        raise InvalidArgumentError(f"{fault.describe()} is planned already, and a fault fires once. Make another one.")


def copy_of(fault: Fault) -> Fault:
    """The same fault once more, as one that is not planned yet."""
    return type(fault)(**fault.figures, trigger=fault.trigger)
