"""Whether closures can still end: a caller that would wait for one that cannot is refused at once.

The chief may have crashed, which held them. Or a closure waits for itself, or for one that counts with its own round, which is not complete
before all its closures have returned.

Taught in lesson 07.
"""

from __future__ import annotations

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.queue import ClosureQueue
from simdist.errors import FailedPreconditionError, UnavailableError
from simdist.runtime.base import Process
from simdist.runtime.work import RunningClosure, running_closure
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["Endings"]


class Endings:
    """What is known of the ends of a coordinator's closures.

    Args:
        strategy: whose coordinator it is.
        chief: the incarnation that holds the closures.
        queue: which runs where.
    """

    def __init__(self, strategy: ParameterServerStrategy, chief: Process, queue: ClosureQueue) -> None:
        self.strategy = strategy
        self.chief = chief
        self.queue = queue

    def require_chief(self, what: str) -> None:
        """Refuse to wait for closures that nobody gives to workers any more.

        Args:
            what: the beginning of the message.

        Raises:
            UnavailableError: the chief has crashed.
        """
        if not self.chief.alive:
            raise UnavailableError(
                f"{what}, but {self.strategy.engine.chief}, which held this coordinator and its closures, has crashed. Start again on a "
                "new cluster: cluster.fresh()."
            )

    def require_end(self, number: int) -> None:
        """Refuse to wait for a closure that cannot end, or not before the code that would wait has returned.

        Args:
            number: of the closure, which has not ended.

        Raises:
            UnavailableError: the chief has crashed.
            FailedPreconditionError: the code that would wait is this closure, or one without which its round is not complete.
        """
        what = f"The value of closure {number} was asked for"
        self.require_chief(what)
        waiting = running_closure.get()
        if waiting is None or waiting.strategy is not self.strategy:
            return
        where = f"{what} in closure {waiting.number} on {waiting.worker}"
        if number == waiting.number:
            raise FailedPreconditionError(f"{where}: it is there when the closure has returned. Use what the function computes itself.")
        if self._counts_with(number, waiting):
            raise FailedPreconditionError(
                f"{where}, but it counts with the round of closure {waiting.number} or a later one, and no round is complete before all "
                "its closures have returned. Return from the closure what is needed, and fetch where the coordinator was made."
            )

    def _counts_with(self, number: int, waiting: RunningClosure) -> bool:
        """Whether a closure counts in no round before that of the one that would wait for it."""
        policy = self.queue.synchronization
        if not isinstance(policy, BoundedStaleness):
            return False
        runs_on = next((worker for worker, attempt in self.queue.running.items() if attempt.closure == number), None)
        earliest = policy.open_round if number in self.queue.queue else policy.round_of(number, runs_on)
        return earliest is not None and policy.holds_up(waiting.worker, earliest)
