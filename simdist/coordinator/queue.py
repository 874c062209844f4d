"""The closure queue: what is scheduled, who runs it, what becomes of it. A state machine without clock, network or JAX.

Facts go in, decisions come out. What follows from what stands in the tables of `simdist.coordinator.closure_states`; a fact that they
exclude raises.

The first error is kept until the chief asks for it; it is given once. After that the queue is as good as new.

Rules for this file: no time, no I/O, no arrays; a closure is a number here, and each has a larger one than those before.

Taught in lesson 01.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import cast

from simdist.coordinator.closure_states import CLOSURES, WORKERS, ClosureAction, ClosureFact, ClosureState, WorkerFact, WorkerState
from simdist.coordinator.synchronization import Asynchronous, Synchronization
from simdist.errors import InvalidArgumentError
from simdist.transitions import Ignored

__all__ = ["Attempt", "ClosureDecision", "ClosureQueue"]

MOST_NAMED = 10


@dataclass(eq=False, slots=True)
class Attempt:
    """One time that a closure is given to a worker: the decision to dispatch it carries the object, and each fact about it gives it back.

    Attributes:
        state: of the closure; after the attempt is over, what it made of it.
    """

    closure: int
    worker: str
    state: ClosureState


@dataclass(frozen=True)
class ClosureDecision:
    """What to do with a closure: which, on which worker; `attempt` of those that run or ran, `error` of those that failed."""

    kind: ClosureAction
    closure: int
    worker: str = ""
    error: BaseException | None = None
    attempt: Attempt | None = field(default=None, compare=False, repr=False)


class ClosureQueue:
    """Closures and the workers that run them.

    Args:
        synchronization: which idle worker may begin; default: each.

    Example:
        >>> queue = ClosureQueue()
        >>> queue.schedule(0)
        []
        >>> [str(decision.kind) for decision in queue.worker_up("worker:0")]
        ['dispatch']
        >>> [str(decision.kind) for decision in queue.worker_down("worker:0")]
        ['retry']
    """

    def __init__(self, synchronization: Synchronization | None = None) -> None:
        self.synchronization: Synchronization = Asynchronous() if synchronization is None else synchronization
        self.queue: deque[int] = deque()
        self.running: dict[str, Attempt] = {}
        self.idle: dict[str, None] = {}
        self.error: BaseException | None = None
        self._newest = -1

    @property
    def pending(self) -> int:
        """Closures that are neither done, failed nor cancelled."""
        return len(self.queue) + len(self.running)

    def is_current(self, attempt: Attempt) -> bool:
        """Whether a reply to this attempt counts."""
        return self.running.get(attempt.worker) is attempt

    # -- facts ----------------------------------------------------------------------------------------------------

    def schedule(self, closure: int) -> list[ClosureDecision]:
        """A closure was scheduled."""
        state = ClosureState.NEW if closure > self._newest else self._state_of_known(closure)
        decisions = self._move(Attempt(closure, "", state), ClosureFact.SCHEDULED)
        self._newest = closure
        return [*(decisions or []), *self._dispatch()]

    def worker_up(self, worker: str) -> list[ClosureDecision]:
        """A worker is ready for work."""
        if not self._move_worker(worker, WorkerFact.UP):
            return []
        self.synchronization.joined(worker)
        return self._dispatch()

    def worker_down(self, worker: str) -> list[ClosureDecision]:
        """A worker is gone. What it ran is run again, before everything that is queued."""
        attempt = self.running.get(worker)
        if not self._move_worker(worker, WorkerFact.DOWN):
            return []
        self.synchronization.left(worker)
        decisions = None if attempt is None else self._move(attempt, ClosureFact.WORKER_DOWN)
        return [*(decisions or []), *self._dispatch()]

    def completed(self, attempt: Attempt) -> list[ClosureDecision]:
        """A reply came."""
        decisions = self._move(attempt, ClosureFact.COMPLETED)
        return [] if decisions is None else [*decisions, *self._free(attempt.worker, True)]

    def timed_out(self, attempt: Attempt) -> list[ClosureDecision]:
        """A message of a closure was lost: it is run again, before everything that is queued, by another worker if one is idle."""
        decisions = self._move(attempt, ClosureFact.MESSAGE_LOST)
        return [] if decisions is None else [*decisions, *self._dispatch(), *self._free(attempt.worker, False)]

    def dropped(self, attempt: Attempt) -> list[ClosureDecision]:
        """The round of a closure is complete without it: it is run again, before everything that is queued."""
        decisions = self._move(attempt, ClosureFact.DROPPED)
        return [] if decisions is None else [*decisions, *self._free(attempt.worker, False)]

    def round_complete(self) -> list[ClosureDecision]:
        """Workers that have waited for the others of their round may begin."""
        return self._dispatch()

    def raised(self, attempt: Attempt, error: BaseException) -> list[ClosureDecision]:
        """A closure failed by itself: it is not run again, and what is queued is cancelled."""
        decisions = self._move(attempt, ClosureFact.RAISED, error)
        if decisions is None:
            return []
        if self.error is None:
            self.error = error
        queued = [Attempt(closure, "", ClosureState.QUEUED) for closure in self.queue]
        self.queue.clear()
        for other in [*queued, *(running for running in self.running.values() if running is not attempt)]:
            decisions += self._move(other, ClosureFact.OTHER_FAILED) or []
        return [*decisions, *self._free(attempt.worker, False)]

    def failed(self, error: BaseException) -> list[ClosureDecision]:
        """What all closures stand on is lost: all of them are cancelled, also those that run."""
        if self.error is None:
            self.error = error
        queued = [Attempt(closure, "", ClosureState.QUEUED) for closure in self.queue]
        self.queue.clear()
        decisions: list[ClosureDecision] = []
        for attempt in [*queued, *list(self.running.values())]:
            decisions += self._move(attempt, ClosureFact.OTHER_FAILED) or []
            if attempt.worker:
                decisions += self._move(attempt, ClosureFact.DROPPED) or []
                self._free(attempt.worker, False)
        return decisions

    def given_up(self, closures: Collection[int]) -> list[ClosureDecision]:
        """Nobody wants these closures any more: those that are queued are cancelled; what runs goes on."""
        queued = [Attempt(closure, "", ClosureState.QUEUED) for closure in self.queue if closure in closures]
        self.queue = deque(closure for closure in self.queue if closure not in closures)
        return [decision for attempt in queued for decision in self._move(attempt, ClosureFact.GIVEN_UP) or []]

    def take_error(self) -> BaseException | None:
        """The first error since the last call, or None."""
        error, self.error = self.error, None
        if error is not None:
            for attempt in self.running.values():
                decisions = self._move(attempt, ClosureFact.ERROR_TAKEN)
                assert not decisions, "nobody would carry them out"
        return error

    # -- transitions ----------------------------------------------------------------------------------------------

    def _move(self, attempt: Attempt, fact: ClosureFact, error: BaseException | None = None) -> list[ClosureDecision] | None:
        """What a fact makes of a closure that was queued or given to a worker; None: nothing, as it comes too late."""
        move = CLOSURES.after(attempt.state, fact, attempt.closure)
        if isinstance(move, Ignored):
            return None
        if move.to is ClosureState.QUEUED:
            enter = self.queue.append if attempt.state is ClosureState.NEW else self.queue.appendleft
            enter(attempt.closure)
        attempt.state = move.to
        decisions: list[ClosureDecision] = []
        for action in move.decisions:  # a loop, because each step comes here and a comprehension is a call
            decisions.append(ClosureDecision(action, attempt.closure, attempt.worker, error, attempt))
        return decisions

    def _move_worker(self, worker: str, fact: WorkerFact, attempt: Attempt | None = None) -> bool:
        """Note what a fact makes of a worker; whether it changes anything."""
        state = WorkerState.BUSY if worker in self.running else WorkerState.IDLE if worker in self.idle else WorkerState.AWAY
        move = WORKERS.after(state, fact, worker)
        if isinstance(move, Ignored):
            return False
        self.idle.pop(worker, None)
        self.running.pop(worker, None)
        if move.to is WorkerState.IDLE:
            self.idle[worker] = None
        elif move.to is WorkerState.BUSY:
            assert attempt is not None
            self.running[worker] = attempt
        return True

    def _free(self, worker: str, has_completed: bool) -> list[ClosureDecision]:
        """A worker is rid of its closure, and may take another."""
        self._move_worker(worker, WorkerFact.FREED)
        self.synchronization.ended(worker, has_completed)
        return self._dispatch()

    def _dispatch(self) -> list[ClosureDecision]:
        decisions: list[ClosureDecision] = []
        while self.queue and self.idle and (worker := self._choose()) is not None:
            attempt = Attempt(self.queue.popleft(), worker, ClosureState.QUEUED)
            decisions += self._move(attempt, ClosureFact.WORKER_IDLE) or []
            self._move_worker(worker, WorkerFact.GIVEN_WORK, attempt)
            self.synchronization.began(worker)
            if self.error is not None:
                self._move(attempt, ClosureFact.OTHER_FAILED)
        return decisions

    def _choose(self) -> str | None:
        """The idle worker that the policy gives the next closure, None for none."""
        worker = cast("object", self.synchronization.choose(self.idle))
        if worker is None or (isinstance(worker, str) and worker in self.idle):
            return worker
        raise InvalidArgumentError(
            f"{type(self.synchronization).__name__}.choose(idle) returned {worker!r}; expected one of the idle workers, "
            f"{', '.join(list(self.idle)[:MOST_NAMED])}, or None if none may begin."
        )

    def _state_of_known(self, closure: int) -> ClosureState:
        for attempt in self.running.values():
            if attempt.closure == closure:
                return attempt.state
        return ClosureState.QUEUED if closure in self.queue else ClosureState.ENDED
