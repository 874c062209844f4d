"""The methods of a plan that break what is between tasks: messages and links. Each plans one fault.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.faults.links import Delay, Drop, Duplicate, SlowLink
from simdist.faults.network import Partition
from simdist.faults.planner import Planner, Predicate, Side
from simdist.faults.triggers import Trigger

__all__ = ["PlansOfMessages"]


class PlansOfMessages(Planner):
    """Faults of what one side sends to another."""

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
            kind: which messages: "read", "update", "closure", "round" (together "request"), "read_reply", "update_reply", "closure_reply",
                "round_reply" (together "reply"), "heartbeat", "notice", "reset", "copy" or "collective"; None: all.
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
        """Make messages from one side to the other slower, from a moment on, until another. Factors of several faults multiply.

        Args:
            source, target, at, after_steps, when, until: as in `drop`.
            bandwidth_factor: what two tasks can send is divided by it, also of what is on its way; 1 or more.
            latency_factor: on the latency of what sets out meanwhile; 1 or more.

        Raises:
            InvalidArgumentError: as `crash`, a factor below 1, an end that is not after the beginning, or a task that is to send to itself.
        """
        fault = SlowLink(source, target, bandwidth_factor, latency_factor, until=until, trigger=Trigger(at, after_steps, when))
        return self.add(fault)
