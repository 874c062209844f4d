"""The executor of a coordinator: carries out what the closure queue decides.

It sends a closure to its worker, takes the reply, gives the queue each fact that follows, and ends the closure. Which closure runs where,
and what becomes of it, is decided in `simdist.coordinator.queue`.

Taught in lessons 00 and 01.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from functools import partial
from typing import assert_never

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.closure import Closure
from simdist.coordinator.closure_states import ClosureAction
from simdist.coordinator.queue import Attempt, ClosureDecision, ClosureQueue
from simdist.coordinator.queue_length import QueueLength
from simdist.coordinator.round_closures import RoundClosures
from simdist.errors import TimedOutError
from simdist.program.function import StepFunction
from simdist.runtime.base import Engine
from simdist.runtime.serving import NOT_IN_ROUNDS, Ticket
from simdist.runtime.work import Handle, WorkerPool

__all__ = ["ClosureExecutor"]


class ClosureExecutor:
    """Runs the closures of one coordinator, as its queue decides.

    Args:
        engine: has the clock and the trace.
        queue: decides.
        pool: the workers.
        gives_tickets: whether messages carry the attempt that they are of, because servers remember what they have applied.
        ended: is called when closures have ended.
        changed: is called when closures have ended, or the queue has another length.

    Attributes:
        closures: those that are queued or run, by number.
        unended: these, and those that wait for their round.
        rounds: the closures that wait for their round; None: each counts as soon as it is done.
    """

    def __init__(
        self,
        engine: Engine,
        queue: ClosureQueue,
        pool: WorkerPool,
        gives_tickets: bool,
        ended: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.engine = engine
        self.queue = queue
        self.pool = pool
        self.closures: dict[int, Closure] = {}
        self.rounds: RoundClosures | None = None
        self._gives_tickets = gives_tickets
        self._ended = ended
        self._changed = changed
        self._attempts = 0
        self._queue_length = QueueLength(engine)
        if isinstance(queue.synchronization, BoundedStaleness):
            self.rounds = RoundClosures(queue.synchronization, queue, pool, self.carry_out, self._rounds_ended, engine)
        self.unended = ChainMap(self.closures, {} if self.rounds is None else self.rounds.waiting)

    @property
    def pending(self) -> int:
        """Closures that are neither done, failed nor cancelled; one whose round is not complete is not done."""
        return self.queue.pending + (0 if self.rounds is None else len(self.rounds.waiting))

    def carry_out(self, decisions: list[ClosureDecision], cause: int = -1) -> None:
        """Do what the queue has decided, because of the record of this number."""
        trace, now, chief = self.engine.trace, self.engine.now, self.engine.chief
        for decision in decisions:
            number, worker = decision.closure, decision.worker
            match decision.kind:
                case ClosureAction.DISPATCH:
                    assert decision.attempt is not None
                    self._dispatch(decision.attempt)
                case ClosureAction.RETRY:
                    trace.instant(worker, "retry", f"closure {number} is run again", now, cause=cause, closure=number)
                case ClosureAction.RESOLVE if self.rounds is not None:
                    self.rounds.waiting[number] = self.closures.pop(number)
                case ClosureAction.RESOLVE:
                    self._ended()
                    self.closures.pop(number).result.end(None)
                case ClosureAction.FAIL:
                    self._ended()
                    trace.instant(worker, "error", f"closure {number}: {type(decision.error).__name__}", now, closure=number)
                    self.closures.pop(number).result.end(decision.error)
                case ClosureAction.CANCEL:
                    trace.instant(chief, "cancel", f"closure {number}", now, closure=number)
                    closure = self.closures.pop(number)
                    closure.result.end(closure.cancelled(self.queue.error))
                case _:
                    assert_never(decision.kind)
        self._queue_length.changed(len(self.queue.queue))
        if self.rounds is not None:
            self.rounds.complete()
        self._changed()

    # -- what a worker is sent, and what it replies ---------------------------------------------------------------

    def _dispatch(self, attempt: Attempt) -> None:
        number, worker = attempt.closure, attempt.worker
        closure, ticket = self.closures[number], self._ticket(worker) if self._gives_tickets else NOT_IN_ROUNDS
        closure.begun = worker
        call = (
            self.pool.call(worker, closure, number, ticket)
            if isinstance(closure.fn, StepFunction)
            else self.pool.call_function(worker, closure.run, number, ticket, closure.argument_bytes)
        )
        call.then(partial(self._replied, attempt, call, ticket.number))

    def _ticket(self, worker: str) -> Ticket:
        """What the messages of this attempt carry."""
        self._attempts += 1
        oldest = next(iter(self.closures))
        return Ticket(self._attempts, oldest=oldest) if self.rounds is None else self.rounds.policy.ticket(worker, self._attempts, oldest)

    def _replied(self, attempt: Attempt, call: Handle, ticket: int) -> None:
        """A reply has come. What travelled with it counts if the closure is still its worker's."""
        if not self.queue.is_current(attempt):
            self.queue.completed(attempt)  # too late: nothing follows
            return
        closure, error = self.closures[attempt.closure], call.error
        if error is None:
            error = self._accepted(call, ticket, attempt)
        if error is None:
            closure.accepted(attempt.worker)
            closure.result.take(call.value)
            self.carry_out(self.queue.completed(attempt))
        elif not isinstance(error, TimedOutError):
            self.carry_out(self.queue.raised(attempt, error))
        elif closure.may_be_tried_again():
            self.carry_out(self.queue.timed_out(attempt))
        else:
            self.carry_out(self.queue.raised(attempt, closure.timed_out_too_often(error)))

    def _accepted(self, call: Handle, ticket: int, attempt: Attempt) -> Exception | None:
        """Let what travelled with a reply count: now, or with its round."""
        if self.rounds is not None:
            self.rounds.keep(attempt, ticket, call)
            return None
        try:
            call.accept()
        except Exception as failure:
            return failure
        return None

    def _rounds_ended(self) -> None:
        """Closures of rounds have ended."""
        self._ended()
        self._changed()
