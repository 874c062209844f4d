"""The workers of one coordinator: when each begins, who joins, who leaves, and who is down.

It gives the closure queue its facts about workers, and hands its decisions on.

Taught in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never, cast

from simdist.arguments import shown
from simdist.coordinator.options import CoordinatorOptions
from simdist.coordinator.queue import ClosureDecision, ClosureQueue
from simdist.errors import FailedPreconditionError, InvalidArgumentError, did_you_mean
from simdist.interrupts import delayed_interrupts
from simdist.runtime.membership import MemberChange, MemberDecision
from simdist.runtime.work import WorkerPool
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.variables.overwriting import require_one_worker

__all__ = ["Workforce"]

MOST_NAMED = 8


class Workforce:
    """The workers of one coordinator.

    Args:
        strategy: whose workers they are.
        pool: runs closures on them.
        queue: gives them closures.
        options: when they begin.
        decided: is called with what the queue decides, and the number of the record that is its cause.
    """

    def __init__(
        self,
        strategy: ParameterServerStrategy,
        pool: WorkerPool,
        queue: ClosureQueue,
        options: CoordinatorOptions,
        decided: Callable[[list[ClosureDecision], int], None],
    ) -> None:
        self.strategy = strategy
        self.engine = strategy.engine
        self.pool = pool
        self.queue = queue
        self.options = options
        self.decided = decided
        self._process = self.engine.process(self.engine.chief)
        self._delayed: set[str] = set()  # those whose start is still to come

    def begin(self) -> None:
        """Let the workers that are up take closures, each after its delay.

        Raises:
            FailedPreconditionError: there is a delay, and this engine has no time.
        """
        for index, name in enumerate(self.strategy.workers):
            delay_s = self.options.delay_of(index)
            if delay_s:
                self._delayed.add(name)
                self.engine.after(delay_s, lambda name=name: self._end_delay(name))
        self.engine.subscribe([*self.strategy.workers, *self.strategy.servers], self._changed)
        for name in list(self.strategy.workers):
            # Another coordinator may have been notified before that they are up.
            self._admit(name)

    def _end_delay(self, name: str) -> None:
        self._delayed.discard(name)
        self._admit(name)

    def _admit(self, name: str) -> None:
        """A worker may take closures if it is up."""
        if self._process.alive and name in self.strategy.workers and name not in self._delayed and self.engine.is_believed_up(name):
            self.decided(self.queue.worker_up(name), -1)

    def _changed(self, seen: MemberDecision) -> None:
        if not self._process.alive or seen.task not in self.strategy.workers:
            return
        match seen.kind:
            case MemberChange.UP:
                if seen.task not in self._delayed:
                    self.decided(self.queue.worker_up(seen.task), seen.cause)
            case MemberChange.DOWN:
                self.decided(self.queue.worker_down(seen.task), seen.cause)
            case _:
                assert_never(seen.kind)

    # -- who joins and leaves -------------------------------------------------------------------------------------

    def add(self) -> str:
        """Start one more worker; it takes closures as soon as the chief has heard of it.

        Raises:
            FailedPreconditionError: variables have a copy on each worker, or are overwritten with their gradients; or the tasks of this
                engine are fixed.
        """
        self.strategy.worker_copies.require_unused()
        require_one_worker(self.strategy.variables)
        with delayed_interrupts():  # a task of which the coordinator does not know would never get a closure
            name = self.engine.add_task("worker")
            self.strategy.change_workers([*self.strategy.workers, name])
            self.pool.add(name)
            self.engine.subscribe([name], self._changed)
            self._note(name, f"{name} joins")
        return name

    def remove(self, name: str) -> None:
        """Take a worker away.

        Raises:
            InvalidArgumentError: there is no such worker.
            FailedPreconditionError: it is the last one, or a round would not wait for any; or variables have a copy on each worker, or the
                tasks of this engine are fixed.
        """
        workers, backups = self.strategy.workers, self.strategy.backup_workers
        if not isinstance(cast("object", name), str) or name not in workers:
            raise InvalidArgumentError(f"There is no worker {shown(name)} to remove. {did_you_mean(shown(name), workers)}")
        if len(workers) <= 1 + backups:
            others = f" and backup_workers={backups}, for which no round waits" if backups else ""
            raise FailedPreconditionError(
                f"{name} is the last worker{' but those' if backups else ''}{others}. Closures need one: add another with "
                "coordinator.add_worker() first."
            )
        self.strategy.worker_copies.require_unused()
        with delayed_interrupts():  # what a worker runs that has left would never end
            self.pool.remove(name)
            self.strategy.change_workers([other for other in workers if other != name])
            self._note(name, f"{name} leaves")
            self.decided(self.queue.worker_down(name), -1)

    def _note(self, name: str, text: str) -> None:
        self.engine.trace.instant(name, "resize", text, self.engine.now, workers=len(self.strategy.workers))

    # -- in words -------------------------------------------------------------------------------------------------

    def tells(self) -> str:
        """What is known of the workers and their closures."""
        known: list[str] = []
        for name in self.strategy.workers[:MOST_NAMED]:
            attempt = self.queue.running.get(name)
            state = "is idle" if name in self.queue.idle else "is away" if attempt is None else f"runs closure {attempt.closure}"
            known.append(f"{name} {state}")
        if len(self.strategy.workers) > MOST_NAMED:
            known.append(f"and {len(self.strategy.workers) - MOST_NAMED} more workers")
        return f"{len(self.queue.queue)} closures are queued; {', '.join(known)}"
