"""Membership: which tasks are up, in the belief of the chief. A state machine without clock and network.

Facts go in (a heartbeat arrived, a connection was reset, time has passed), decisions come out. Beliefs move like this:

    up       --connection reset-->            down
    up       --silent for `timeout_s`-->      down
    down     --heartbeat, same incarnation--> up      (it was only slow, or cut off)
    any      --higher incarnation-->          up      (it has restarted)
    any      --fact of a lower incarnation--> (ignored)

Taught in lesson 01.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Belief", "Decision", "Membership"]


@dataclass
class Belief:
    """The belief about one task."""

    incarnation: int
    up: bool
    heard_s: float


@dataclass(frozen=True)
class Decision:
    """`kind` is "down" (with the reason) or "up"."""

    kind: str
    task: str
    incarnation: int
    reason: str = ""


class Membership:
    """The beliefs about all tasks.

    Args:
        timeout_s: seconds of silence after which a task is believed to be down.

    Example:
        >>> members = Membership(timeout_s=3.0)
        >>> members.heartbeat("worker:0", 0, now_s=0.0)
        [Decision(kind='up', task='worker:0', incarnation=0, reason='')]
        >>> members.time_passed(now_s=4.0)
        [Decision(kind='down', task='worker:0', incarnation=0, reason='silent for 4.0 s')]
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.beliefs: dict[str, Belief] = {}

    def heartbeat(self, task: str, incarnation: int, now_s: float) -> list[Decision]:
        """A heartbeat has arrived."""
        belief = self.beliefs.get(task)
        if belief is not None and incarnation < belief.incarnation:
            return []
        known = belief is not None and belief.incarnation == incarnation and belief.up
        decisions: list[Decision] = []
        if belief is not None and belief.up and incarnation > belief.incarnation:
            decisions.append(Decision("down", task, belief.incarnation, "restarted"))
        self.beliefs[task] = Belief(incarnation, True, now_s)
        return decisions if known else [*decisions, Decision("up", task, incarnation)]

    def connection_reset(self, task: str, incarnation: int) -> list[Decision]:
        """The connection to a task was closed from the other side."""
        belief = self.beliefs.get(task)
        if belief is None or not belief.up or incarnation < belief.incarnation:
            return []
        belief.up = False
        return [Decision("down", task, belief.incarnation, "connection reset")]

    def time_passed(self, now_s: float) -> list[Decision]:
        """Note that it is `now_s`: a task that was silent for too long is down."""
        decisions: list[Decision] = []
        for task, belief in self.beliefs.items():
            if belief.up and now_s - belief.heard_s > self.timeout_s:
                belief.up = False
                decisions.append(Decision("down", task, belief.incarnation, f"silent for {now_s - belief.heard_s:.1f} s"))
        return decisions

    def is_up(self, task: str) -> bool:
        belief = self.beliefs.get(task)
        return belief is not None and belief.up
