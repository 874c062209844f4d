"""What can happen to closures and to the workers that run them, and what follows: the tables of the closure queue.

Two tables say what follows from what: `CLOSURES` for each closure, `WORKERS` for each worker; ARCHITECTURE.md has both as diagrams. A fact
that they exclude raises.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Never

from simdist.transitions import Ignored, Move, TransitionTable

__all__ = ["CLOSURES", "WORKERS", "ClosureAction", "ClosureFact", "ClosureState", "WorkerFact", "WorkerState"]


class ClosureState(StrEnum):
    """What a closure does. LAST_TRY runs too, but is not run again, as another one has failed. The queue forgets what has ENDED."""

    NEW = "new"
    QUEUED = "queued"
    RUNNING = "running"
    LAST_TRY = "last_try"
    ENDED = "ended"


class ClosureFact(StrEnum):
    """What can happen to a closure. Replies and losses are those of one attempt to run it."""

    SCHEDULED = "scheduled"
    WORKER_IDLE = "worker_idle"
    COMPLETED = "completed"
    RAISED = "raised"
    MESSAGE_LOST = "message_lost"
    DROPPED = "dropped"
    WORKER_DOWN = "worker_down"
    OTHER_FAILED = "other_failed"
    GIVEN_UP = "given_up"
    ERROR_TAKEN = "error_taken"


class ClosureAction(StrEnum):
    """What the coordinator has to do with a closure."""

    DISPATCH = "dispatch"
    RETRY = "retry"
    RESOLVE = "resolve"
    FAIL = "fail"
    CANCEL = "cancel"


class WorkerState(StrEnum):
    """What the queue knows of a worker."""

    AWAY = "away"
    IDLE = "idle"
    BUSY = "busy"


class WorkerFact(StrEnum):
    """What can happen to a worker."""

    UP = "up"
    DOWN = "down"
    GIVEN_WORK = "given_work"
    FREED = "freed"


LATE_REPLY = Ignored("late reply")  # of an attempt that was given up: its worker was silent, or its message was lost

_S, _F, _A = ClosureState, ClosureFact, ClosureAction
CLOSURES: TransitionTable[ClosureState, ClosureFact, ClosureAction] = TransitionTable(
    "closure queue",
    _S.NEW,
    {
        (_S.NEW, _F.SCHEDULED): Move(_S.QUEUED),
        (_S.QUEUED, _F.WORKER_IDLE): Move(_S.RUNNING, (_A.DISPATCH,)),
        (_S.RUNNING, _F.COMPLETED): Move(_S.ENDED, (_A.RESOLVE,)),
        (_S.RUNNING, _F.RAISED): Move(_S.ENDED, (_A.FAIL,)),
        (_S.RUNNING, _F.MESSAGE_LOST): Move(_S.QUEUED, (_A.RETRY,)),  # before all others, as with the next
        (_S.RUNNING, _F.WORKER_DOWN): Move(_S.QUEUED, (_A.RETRY,)),
        (_S.RUNNING, _F.DROPPED): Move(_S.QUEUED, (_A.RETRY,)),
        (_S.QUEUED, _F.OTHER_FAILED): Move(_S.ENDED, (_A.CANCEL,)),
        (_S.QUEUED, _F.GIVEN_UP): Move(_S.ENDED, (_A.CANCEL,)),
        (_S.RUNNING, _F.OTHER_FAILED): Move(_S.LAST_TRY),
        (_S.LAST_TRY, _F.OTHER_FAILED): Ignored("known"),
        (_S.LAST_TRY, _F.ERROR_TAKEN): Move(_S.RUNNING),
        (_S.LAST_TRY, _F.COMPLETED): Move(_S.ENDED, (_A.RESOLVE,)),
        (_S.LAST_TRY, _F.RAISED): Move(_S.ENDED, (_A.FAIL,)),
        (_S.LAST_TRY, _F.MESSAGE_LOST): Move(_S.ENDED, (_A.CANCEL,)),
        (_S.LAST_TRY, _F.WORKER_DOWN): Move(_S.ENDED, (_A.CANCEL,)),
        (_S.LAST_TRY, _F.DROPPED): Move(_S.ENDED, (_A.CANCEL,)),
        (_S.QUEUED, _F.COMPLETED): LATE_REPLY,
        (_S.QUEUED, _F.RAISED): LATE_REPLY,
        (_S.QUEUED, _F.MESSAGE_LOST): LATE_REPLY,
        (_S.QUEUED, _F.DROPPED): LATE_REPLY,
        (_S.ENDED, _F.COMPLETED): LATE_REPLY,
        (_S.ENDED, _F.RAISED): LATE_REPLY,
        (_S.ENDED, _F.MESSAGE_LOST): LATE_REPLY,
        (_S.ENDED, _F.DROPPED): LATE_REPLY,
    },
)

_W, _WF = WorkerState, WorkerFact
WORKERS: TransitionTable[WorkerState, WorkerFact, Never] = TransitionTable(
    "workers of the closure queue",
    _W.AWAY,
    {
        (_W.AWAY, _WF.UP): Move(_W.IDLE),
        (_W.IDLE, _WF.UP): Ignored("known"),  # whoever makes the queue asks who is up, and may have been told already
        (_W.IDLE, _WF.GIVEN_WORK): Move(_W.BUSY),
        (_W.BUSY, _WF.FREED): Move(_W.IDLE),
        (_W.IDLE, _WF.DOWN): Move(_W.AWAY),
        (_W.BUSY, _WF.DOWN): Move(_W.AWAY),
        (_W.AWAY, _WF.DOWN): Ignored("never heard of"),  # it has restarted while the queue was made
    },
)
