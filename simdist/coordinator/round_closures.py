"""The closures of a coordinator whose workers proceed in rounds: their replies wait, and count when their round is complete.

Which rounds are complete is decided in `simdist.coordinator.bounded`; this file carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.closure import Closure
from simdist.coordinator.queue import Attempt, ClosureDecision, ClosureQueue
from simdist.coordinator.waits import Waits
from simdist.errors import UnavailableError
from simdist.runtime.base import Engine
from simdist.runtime.serving import Round
from simdist.runtime.work import Handle, WorkerPool

__all__ = ["RoundClosures"]


class RoundClosures:
    """The closures that are done and do not count yet.

    Args:
        policy: says which rounds are complete.
        queue, workers: of the coordinator.
        decided: is called with what the queue decides.
        ended: is called when closures have ended.
        engine: whose callers wait for whole rounds.

    Attributes:
        expects_more: whether closures are to be scheduled as soon as the caller is done with something else, so that a round that is not
            full waits for them though nothing is queued.
    """

    def __init__(
        self,
        policy: BoundedStaleness,
        queue: ClosureQueue,
        workers: WorkerPool,
        decided: Callable[[list[ClosureDecision]], None],
        ended: Callable[[], None],
        engine: Engine,
    ) -> None:
        self.policy = policy
        self.queue = queue
        self.workers = workers
        self.decided = decided
        self.ended = ended
        self.waiting: dict[int, Closure] = {}
        self.expects_more = False
        self._replies: dict[int, Handle] = {}  # by ticket
        self._applying = self._holding = 0  # rounds that servers are applying; callers who hold back the next
        self._whole = Waits(engine)
        self._broken: BaseException | None = None  # why no further round can be applied

    def require_whole(self) -> None:
        """Refuse closures after a round is lost.

        Raises:
            UnavailableError: they have.
        """
        if self._broken is not None:
            raise UnavailableError(
                f"schedule was called, but a round of updates is lost, so the servers differ by it ({self._broken}). Make the strategy and "
                "the model again. With recovery='replica' the death of a server loses no round."
            )

    def keep(self, attempt: Attempt, ticket: int, call: Handle) -> None:
        """A reply has come: what travelled with it counts with its round."""
        self._replies[ticket] = call
        self.policy.completed(attempt.worker, ticket, attempt.closure)

    def expect(self, more: bool) -> None:
        """Say whether more closures are to come; if not, a round that is not full waits no longer."""
        was_expected, self.expects_more = self.expects_more, more
        if was_expected and not more:
            self.complete()

    @contextmanager
    def between_rounds(self) -> Iterator[None]:
        """Inside, all servers have applied the same rounds: those under way are awaited, and the next is held back.

        They apply a round one after the other. What is read meanwhile has it for some variables only; what is assigned, too, for ever.
        """
        self._holding += 1
        try:
            while self._applying and self._broken is None:
                self._whole.wait("the servers to apply a round")
            yield
        finally:
            self._holding -= 1
            self.complete()

    def complete(self) -> None:
        """Let the servers apply the rounds that are complete; workers that have waited for that begin the next one."""
        if self._holding:
            return
        rounds = self.policy.complete_rounds(not self.queue.queue and not self.expects_more)
        for complete in rounds:
            try:
                for ticket in complete.tickets:
                    self._replies.pop(ticket).accept()
            except Exception as error:
                self._lose(error)
                return
            self._applying += 1
            call = self.workers.apply_round(complete)
            call.then(partial(self._applied, complete, call))
        if rounds:
            while (worker := self.policy.late()) is not None:
                self.workers.abandon(worker)
                self.decided(self.queue.dropped(self.queue.running[worker]))
            self.decided(self.queue.round_complete())

    def _applied(self, complete: Round, call: Handle) -> None:
        """All servers have applied a round: its closures are done. If one has lost it, all are over: servers differ by a round."""
        self._applying -= 1
        if call.error is not None:
            self._lose(call.error)
        else:
            self._end(complete.closures, None)
        if not self._applying or self._broken is not None:
            self._whole.let_go()

    def _lose(self, error: BaseException) -> None:
        """A round cannot be applied, nor any after it."""
        self._broken = self._broken or error
        for worker in self.queue.running:
            self.workers.abandon(worker)
        self.decided(self.queue.failed(error))
        self._end(tuple(self.waiting), error)

    def _end(self, numbers: Sequence[int], error: BaseException | None) -> None:
        for number in numbers:
            closure = self.waiting.pop(number, None)
            if closure is not None:
                closure.result.end(error)
        self.ended()
