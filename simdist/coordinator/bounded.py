"""`BoundedStaleness`: workers proceed in rounds, and no worker is more than a few rounds ahead of the slowest.

Each worker has a clock: the number of closures that it has completed. Its closure number c counts for round c. A round is complete when no
worker can add to it any more; then the servers apply the average of its gradients, as one update (increments are added up). A worker may
begin round c when all rounds up to c - s - 1 are complete, and what it reads contains them: with s = 0 that is synchronous training. The
updates of a round are added up in the order of the workers' ranks, so that the result does not depend on who was faster.

With backup workers (s = 0 only) a round is complete without the slowest; they stop what they compute for it, and their closures are run
again.

The updates of a round are seen together, when it is complete; an implementation that shows each of them at once, as Ho et al. allow, has
fresher reads where s is large.

Invariants: a closure counts in exactly one round; rounds are completed in order; no clock is more than s ahead of the round that is open.
A decision looks at the workers that it is about, and not at all of them.

Sources: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013, section 3; Chen et al.,
Revisiting Distributed Synchronous SGD, 2016, section 3.

Taught in lesson 05.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from simdist.coordinator.candidates import Candidates
from simdist.coordinator.rounds_by_worker import RoundsByWorker
from simdist.coordinator.synchronization import Reads, UpdatesCount
from simdist.runtime.serving import Round, Ticket

__all__ = ["BoundedStaleness"]


@dataclass(frozen=True)
class Contribution:
    """A closure that was completed for a round: its worker's rank, its attempt and its number."""

    rank: int
    ticket: int
    closure: int


class BoundedStaleness:
    """Workers proceed in rounds; as `Synchronization`.

    Args:
        ranks: of the workers, by name.
        staleness: how many rounds a worker may be ahead of the one that is open; 0: synchronous training.
        backup_workers: how many workers a round does not wait for.

    Example:
        >>> policy = BoundedStaleness({"worker:0": 0, "worker:1": 1}, staleness=0)
        >>> for worker in policy.ranks:
        ...     policy.joined(worker)
        ...     policy.began(worker)
        >>> policy.completed("worker:1", ticket=0, closure=0)
        >>> policy.ended("worker:1", True)
        >>> policy.may_begin("worker:1"), policy.complete_rounds(False)
        (False, [])
        >>> policy.completed("worker:0", ticket=1, closure=1)
        >>> policy.ended("worker:0", True)
        >>> policy.complete_rounds(False)
        [Round(clock=0, tickets=(1, 0), closures=(1, 0))]
    """

    reads = Reads.ROUND
    counts = UpdatesCount.WITH_ROUND

    def __init__(self, ranks: Mapping[str, int], staleness: int, backup_workers: int = 0) -> None:
        self.ranks = dict(ranks)
        self.staleness = staleness
        self.backup_workers = backup_workers
        self.open_round = 0
        self.clocks = RoundsByWorker()  # of the workers that are up: closures that each has completed
        self.working = RoundsByWorker()  # for which round each works
        self.contributions: dict[int, list[Contribution]] = {}
        self._candidates = Candidates()  # who works for no round, and is not too far ahead
        self._ahead: dict[int, list[str]] = {}  # by clock: who is too far ahead

    def joined(self, worker: str) -> None:
        """A worker that joins counts from the open round on; one that is new is added up after all others."""
        if worker not in self.ranks:
            self.ranks[worker] = max(self.ranks.values(), default=-1) + 1
        self.clocks[worker] = self.open_round
        self._candidates.add(self.ranks[worker], worker)

    def left(self, worker: str) -> None:
        """No round waits for it any more; what it has completed counts."""
        self.clocks.pop(worker, None)
        self.working.pop(worker, None)

    def may_begin(self, worker: str) -> bool:
        """Whether it is not too far ahead."""
        return self.clocks[worker] - self.open_round <= self.staleness

    def choose(self, idle: Iterable[str]) -> str | None:
        """The worker with the lowest rank of those that may begin: who was faster in the last round must not decide about the next."""
        waiting = idle if isinstance(idle, Collection) else set(idle)
        return self._candidates.first(self._is_candidate, may_wait=lambda worker: worker not in waiting)

    def _is_candidate(self, worker: str) -> bool:
        if worker in self.working or worker not in self.clocks:
            return False
        if not self.may_begin(worker):
            self._ahead.setdefault(self.clocks[worker], []).append(worker)
            return False
        return True

    def began(self, worker: str) -> None:
        """It works for the round of its clock."""
        self.working[worker] = self.clocks[worker]

    def ticket(self, worker: str, number: int, oldest: int) -> Ticket:
        """What the messages of the closure carry that a worker has just begun."""
        clock = self.working[worker]
        return Ticket(number, clock, max(0, clock - self.staleness), oldest)

    def late(self) -> str | None:
        """A worker that works for a round that is complete without it; None if there is none."""
        earliest = self.working.earliest
        return None if earliest is None or earliest >= self.open_round else next(iter(self.working.at(earliest)))

    def round_of(self, closure: int, runs_on: str | None) -> int | None:
        """The open round that a closure counts for, which has completed or runs on a worker; None of one whose round is complete."""
        if runs_on is not None and runs_on in self.working:
            return self.working[runs_on]
        return next((clock for clock, added in self.contributions.items() if any(one.closure == closure for one in added)), None)

    def holds_up(self, worker: str, clock: int) -> bool:
        """Whether a round cannot be complete before this worker has ended what it does now."""
        return not self.backup_workers and worker in self.working and self.working[worker] <= clock

    def completed(self, worker: str, ticket: int, closure: int) -> None:
        """A worker has completed its closure, for a round that is open."""
        contribution = Contribution(self.ranks[worker], ticket, closure)
        self.contributions.setdefault(self.working[worker], []).append(contribution)

    def ended(self, worker: str, has_completed: bool) -> None:
        """A worker is rid of its closure."""
        clock = self.working.pop(worker)
        if has_completed:
            self.clocks[worker] = max(self.clocks[worker], clock + 1)
        self._candidates.add(self.ranks[worker], worker)

    def complete_rounds(self, is_drained: bool) -> list[Round]:
        """The rounds that are complete now, in order; each is given once.

        Args:
            is_drained: whether no closure is queued, nor is one to come, so that an idle worker will add nothing.
        """
        rounds: list[Round] = []
        while self._is_complete(is_drained):
            added = sorted(self.contributions.pop(self.open_round, []), key=lambda contribution: contribution.rank)
            rounds.append(Round(self.open_round, tuple([one.ticket for one in added]), tuple([one.closure for one in added])))
            self._open_next()
        return rounds

    def _open_next(self) -> None:
        """The next round is open: who has not added to the last one goes on from there, and who was one too far ahead may begin."""
        self.open_round += 1
        while (earliest := self.clocks.earliest) is not None and earliest < self.open_round:
            for worker in list(self.clocks.at(earliest)):
                self.clocks[worker] = self.open_round
        for worker in self._ahead.pop(self.open_round + self.staleness, ()):
            self._candidates.add(self.ranks[worker], worker)

    def _is_complete(self, is_drained: bool) -> bool:
        added = len(self.contributions.get(self.open_round, ()))
        if self.backup_workers and added >= max(1, len(self.clocks) - self.backup_workers):
            return True
        if self.working.at(self.open_round):
            return False
        if is_drained:
            return any(self.contributions.values())
        earliest = self.clocks.earliest
        return earliest is not None and earliest > self.open_round

    def __repr__(self) -> str:
        backups = f", backup_workers={self.backup_workers}" if self.backup_workers else ""
        return f"BoundedStaleness(staleness={self.staleness}{backups})"
