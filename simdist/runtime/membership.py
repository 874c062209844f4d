"""Membership: which tasks are up, in the belief of the chief. A state machine without clock and network.

Facts go in (a heartbeat arrived, a connection was reset, time has passed), decisions come out. The table `MEMBERS` says what follows from
what; ARCHITECTURE.md has it as a diagram. A fact that it excludes raises.

Taught in lesson 01.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from simdist.transitions import Ignored, Move, TransitionTable

__all__ = ["MEMBERS", "Belief", "MemberChange", "MemberDecision", "MemberFact", "MemberState", "Membership"]


class MemberState(StrEnum):
    """What is believed of a task."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class MemberFact(StrEnum):
    """What can be heard of a task: of the incarnation that is known, of a later one, or of an earlier one."""

    HEARTBEAT = "heartbeat"
    HEARTBEAT_OF_LATER = "heartbeat_of_later_incarnation"
    HEARTBEAT_OF_EARLIER = "heartbeat_of_earlier_incarnation"
    RESET = "connection_reset"
    RESET_OF_LATER = "connection_reset_of_later_incarnation"
    RESET_OF_EARLIER = "connection_reset_of_earlier_incarnation"
    SUSPECTED = "silent_for_too_long"


class MemberChange(StrEnum):
    """What listeners are notified of."""

    UP = "up"
    DOWN = "down"


EARLIER = Ignored("earlier incarnation")  # a message that was long on its way
KNOWN = Ignored("known to be down")
NOT_HEARD_OF = Ignored("never heard of")

_S, _F, _C = MemberState, MemberFact, MemberChange
MEMBERS: TransitionTable[MemberState, MemberFact, MemberChange] = TransitionTable(
    "membership",
    _S.UNKNOWN,
    {
        (_S.UNKNOWN, _F.HEARTBEAT_OF_LATER): Move(_S.UP, (_C.UP,)),
        (_S.UNKNOWN, _F.RESET_OF_LATER): NOT_HEARD_OF,
        (_S.UP, _F.HEARTBEAT): Move(_S.UP),
        (_S.UP, _F.HEARTBEAT_OF_LATER): Move(_S.UP, (_C.DOWN, _C.UP)),  # it has restarted
        (_S.UP, _F.HEARTBEAT_OF_EARLIER): EARLIER,
        (_S.UP, _F.RESET): Move(_S.DOWN, (_C.DOWN,)),
        (_S.UP, _F.RESET_OF_LATER): Move(_S.DOWN, (_C.DOWN,)),  # its registration was lost
        (_S.UP, _F.RESET_OF_EARLIER): EARLIER,
        (_S.UP, _F.SUSPECTED): Move(_S.DOWN, (_C.DOWN,)),
        (_S.DOWN, _F.HEARTBEAT): Move(_S.UP, (_C.UP,)),  # it was only slow, or cut off
        (_S.DOWN, _F.HEARTBEAT_OF_LATER): Move(_S.UP, (_C.UP,)),
        (_S.DOWN, _F.HEARTBEAT_OF_EARLIER): EARLIER,
        (_S.DOWN, _F.RESET): KNOWN,
        (_S.DOWN, _F.RESET_OF_LATER): KNOWN,
        (_S.DOWN, _F.RESET_OF_EARLIER): EARLIER,
    },
)

HEARTBEATS = (MemberFact.HEARTBEAT_OF_EARLIER, MemberFact.HEARTBEAT, MemberFact.HEARTBEAT_OF_LATER)
RESETS = (MemberFact.RESET_OF_EARLIER, MemberFact.RESET, MemberFact.RESET_OF_LATER)


@dataclass
class Belief:
    """What is believed of one task.

    Attributes:
        incarnation: that was heard of last; -1 before the first.
        heard_s: when.
    """

    incarnation: int = -1
    state: MemberState = MemberState.UNKNOWN
    heard_s: float = 0.0

    @property
    def up(self) -> bool:
        return self.state is MemberState.UP


@dataclass(frozen=True)
class MemberDecision:
    """A task is believed to be up from now on, or to be down (with the reason).

    `cause` is the number of the record that shows the decision, or -1.
    """

    kind: MemberChange
    task: str
    incarnation: int
    reason: str = ""
    cause: int = field(default=-1, compare=False, repr=False)


class Membership:
    """The beliefs about all tasks.

    Args:
        timeout_s: seconds of silence after which a task is believed to be down.

    Example:
        >>> members = Membership(timeout_s=3.0)
        >>> members.heartbeat("worker:0", 0, now_s=0.0)
        [MemberDecision(kind=<MemberChange.UP: 'up'>, task='worker:0', incarnation=0, reason='')]
        >>> members.time_passed(now_s=4.0)
        [MemberDecision(kind=<MemberChange.DOWN: 'down'>, task='worker:0', incarnation=0, reason='silent for 4.0 s')]
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.beliefs: dict[str, Belief] = {}

    def heartbeat(self, task: str, incarnation: int, now_s: float) -> list[MemberDecision]:
        """A sign of life has arrived."""
        belief = self.beliefs.get(task, Belief())
        former = belief.incarnation
        move = MEMBERS.after(belief.state, HEARTBEATS[_order(incarnation, former)], task)
        if isinstance(move, Ignored):
            return []
        self.beliefs[task] = Belief(incarnation, move.to, now_s)
        # Who has restarted went down as what it was before, and came up as what it is.
        return [
            MemberDecision(change, task, incarnation) if change is MemberChange.UP else MemberDecision(change, task, former, "restarted")
            for change in move.decisions
        ]

    def connection_reset(self, task: str, incarnation: int) -> list[MemberDecision]:
        """The connection to a task was closed from the other side."""
        belief = self.beliefs.get(task, Belief())
        return self._change(task, belief, RESETS[_order(incarnation, belief.incarnation)], "connection reset")

    def time_passed(self, now_s: float) -> list[MemberDecision]:
        """It is `now_s`: who has been silent for too long?"""
        decisions: list[MemberDecision] = []
        for task, belief in self.beliefs.items():
            if belief.up and now_s - belief.heard_s > self.timeout_s:
                decisions += self._change(task, belief, MemberFact.SUSPECTED, f"silent for {now_s - belief.heard_s:.1f} s")
        return decisions

    def is_up(self, task: str) -> bool:
        belief = self.beliefs.get(task)
        return belief is not None and belief.up

    def _change(self, task: str, belief: Belief, fact: MemberFact, reason: str) -> list[MemberDecision]:
        move = MEMBERS.after(belief.state, fact, task)
        if isinstance(move, Ignored):
            return []
        belief.state = move.to
        self.beliefs[task] = belief
        return [MemberDecision(change, task, belief.incarnation, reason) for change in move.decisions]


def _order(incarnation: int, known: int) -> int:
    """0 for an earlier incarnation than the known one, 1 for the same, 2 for a later one."""
    return 1 if incarnation == known else 2 if incarnation > known else 0
