"""Histories of a closure queue: facts in any order, as a coordinator gives them, and what must be true after each.

A history is a list of pairs (fact, number); the number says which worker, or which attempt that has not replied. Any list is a history: a
fact that cannot be at its moment is left out, so that parts of histories are histories, and a failing one can be made short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.closure_states import ClosureAction
from simdist.coordinator.queue import Attempt, ClosureDecision, ClosureQueue
from simdist.coordinator.synchronization import Asynchronous, Synchronization

__all__ = ["FACTS", "POLICIES", "Followed", "History", "follow", "random_history", "shortest"]

History: TypeAlias = Sequence[tuple[str, int]]

FACTS = ("schedule", "up", "down", "join", "completed", "raised", "lost", "take")
FREQUENT = ("schedule",) * 6 + ("up",) * 3 + ("down", "join") + ("completed",) * 6 + ("raised", "lost", "take")  # as dice draw them
MOST_WORKERS = 6
ENDS = {ClosureAction.RESOLVE: "resolved", ClosureAction.FAIL: "failed", ClosureAction.CANCEL: "cancelled"}


def ranks() -> dict[str, int]:
    return {f"worker:{index}": index for index in range(3)}


POLICIES: dict[str, Callable[[], Synchronization]] = {
    "asynchronous": Asynchronous,
    "sync": lambda: BoundedStaleness(ranks(), 0),
    "bounded by one": lambda: BoundedStaleness(ranks(), 1),
    "bounded by three": lambda: BoundedStaleness(ranks(), 3),
    "one backup": lambda: BoundedStaleness(ranks(), 0, backup_workers=1),
    "two backups": lambda: BoundedStaleness(ranks(), 0, backup_workers=2),
}


class Followed:
    """A queue with its policy, that follows a history as the coordinator would make it.

    Attributes:
        open: attempts of which no reply has come, current or not.
        ended: how each closure has ended.
        rounds: the closures of the rounds that were complete, in order.
    """

    def __init__(self, policy: Synchronization) -> None:
        self.policy = policy
        self.bounded = policy if isinstance(policy, BoundedStaleness) else None
        self.queue = ClosureQueue(policy)
        self.workers = list(ranks())
        self.open: list[Attempt] = []
        self.ended: dict[int, str] = {}
        self.tickets: dict[int, int] = {}  # of attempts, by identity
        self.resolved: set[int] = set()  # and in no round that is complete
        self.rounds: list[tuple[int, ...]] = []
        self.scheduled = 0
        self.error: Exception | None = None

    # -- facts ----------------------------------------------------------------------------------------------------

    def fact(self, fact: str, number: int) -> None:
        getattr(self, fact)(number)
        self.check()

    def schedule(self, _: int) -> None:
        self.scheduled += 1
        self.carry_out(self.queue.schedule(self.scheduled - 1))

    def up(self, number: int) -> None:
        worker = self.workers[number % len(self.workers)]
        if worker not in self.queue.running:
            self.carry_out(self.queue.worker_up(worker))

    def down(self, number: int) -> None:
        self.carry_out(self.queue.worker_down(self.workers[number % len(self.workers)]))

    def join(self, _: int) -> None:
        if len(self.workers) < MOST_WORKERS:
            self.workers.append(f"worker:{len(self.workers)}")
            self.up(len(self.workers) - 1)

    def completed(self, number: int) -> None:
        attempt = self.taken(number)
        if attempt is None:
            return
        if not self.queue.is_current(attempt):
            assert self.queue.completed(attempt) == [], "a reply that comes too late has an effect"
            return
        if self.bounded is not None:
            self.bounded.completed(attempt.worker, id(attempt), attempt.closure)
        self.carry_out(self.queue.completed(attempt))

    def raised(self, number: int) -> None:
        attempt = self.taken(number)
        if attempt is None:
            return
        error = ValueError(attempt.closure)
        if self.queue.is_current(attempt) and self.error is None:
            self.error = error
        self.carry_out(self.queue.raised(attempt, error))

    def lost(self, number: int) -> None:
        attempt = self.taken(number)
        if attempt is not None:
            self.carry_out(self.queue.timed_out(attempt))

    def take(self, _: int) -> None:
        assert self.queue.take_error() is self.error, "the error that is given is not the first one"
        self.error = None
        assert self.queue.take_error() is None, "an error is given twice"

    def taken(self, number: int) -> Attempt | None:
        return self.open.pop(number % len(self.open)) if self.open else None

    # -- decisions ------------------------------------------------------------------------------------------------

    def carry_out(self, decisions: list[ClosureDecision]) -> None:
        for position, decision in enumerate(decisions):
            closure = decision.closure
            if decision.kind is ClosureAction.DISPATCH:
                assert decision.attempt is not None and closure not in self.ended and closure not in self.resolved
                self.open.append(decision.attempt)
            elif decision.kind is ClosureAction.RETRY:
                following = [other.closure for other in decisions[position + 1 :] if other.kind is ClosureAction.DISPATCH]
                assert (following[:1] or [self.queue.queue[0]]) == [closure], "a closure that runs again comes before all others"
            else:
                assert closure not in self.ended and closure not in self.resolved, "a closure ends twice"
                if decision.kind is ClosureAction.RESOLVE and self.bounded is not None:
                    self.resolved.add(closure)
                else:
                    self.ended[closure] = ENDS[decision.kind]
        if self.bounded is not None:
            self.complete_rounds(self.bounded)

    def complete_rounds(self, policy: BoundedStaleness) -> None:
        complete = policy.complete_rounds(not self.queue.queue)
        for one in complete:
            assert one.clock == len(self.rounds), "rounds are complete in another order"
            self.rounds.append(one.closures)
            for closure in one.closures:
                self.resolved.remove(closure)  # each counts in one round
                self.ended[closure] = "resolved"
        if complete:
            while (worker := policy.late()) is not None:
                assert policy.backup_workers, "a round is complete without a worker that it waits for"
                self.carry_out(self.queue.dropped(self.queue.running[worker]))
            self.carry_out(self.queue.round_complete())

    # -- what must be true ----------------------------------------------------------------------------------------

    def check(self) -> None:
        queue, running = self.queue, self.queue.running
        assert queue.pending == self.scheduled - len(self.ended) - len(self.resolved), "a closure is lost, or counted twice"
        current = [attempt.closure for attempt in running.values()]
        assert len({*current, *queue.queue}) == len(current) + len(queue.queue), "a closure is at two places"
        assert not running.keys() & queue.idle.keys(), "a worker is busy and idle"
        if queue.queue and queue.idle:
            assert self.bounded is not None and running, "nobody works, and somebody could"
        if self.bounded is not None:
            self.check_rounds(self.bounded)

    def check_rounds(self, policy: BoundedStaleness) -> None:
        assert policy.working.keys() == self.queue.running.keys()
        for worker, clock in policy.working.items():
            assert policy.open_round <= clock <= policy.open_round + policy.staleness, f"{worker} is too far ahead, or too late"
        counted = sum(map(len, policy.contributions.values()))
        assert counted == len(self.resolved), "a closure that was completed counts in no round, or in two"

    def finish(self) -> None:
        """Let all workers be up, and all closures be completed: everything ends."""
        for number in range(len(self.workers)):
            self.fact("up", number)
        most = MOST_WORKERS * (self.scheduled + len(self.open)) + 1  # a round may drop the closures of all workers but one
        while self.open and most:
            most -= 1
            self.fact("completed", 0)
        assert self.queue.pending == 0 and not self.resolved, "something never ends"
        assert sorted(self.ended) == list(range(self.scheduled))


def follow(policy: str, history: History) -> None:
    """Follow a history to its end.

    Raises:
        AssertionError: something that must be true is not.
    """
    followed = Followed(POLICIES[policy]())
    for fact, number in history:
        followed.fact(fact, number)
    followed.finish()


def random_history(dice: Random, length: int) -> History:
    """Facts as dice give them."""
    return [(dice.choice(FREQUENT), dice.randrange(12)) for _ in range(length)]


def shortest(history: History, fails: Callable[[History], bool]) -> History:
    """A part of a failing history that fails too, of which no fact can be left out, and with small numbers."""
    found, size = list(history), len(history)
    while size:
        for first in range(0, len(found), size):
            without = found[:first] + found[first + size :]
            if len(without) < len(found) and fails(without):
                found = without
                break
        else:
            size //= 2
    for position, (fact, number) in enumerate(found):
        for smaller in range(number):
            changed = [*found[:position], (fact, smaller), *found[position + 1 :]]
            if fails(changed):
                found = changed
                break
    return found
