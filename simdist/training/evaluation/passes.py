"""Passes over data: who takes which batch.

`ReplicaPass`: the replicas of a synchronous strategy take parts of each batch. `WorkerPass`: workers of a parameter-server strategy take
whole batches, some of them in a closure; each counts once, also where a worker dies. `AlonePass`: one replica takes whole batches.
`PassInTurn`: likewise, each batch with the state that the one before it has left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.coordinator.handed_out import HandedOut
from simdist.coordinator.remote_value import Result
from simdist.coordinator.returning_servers import await_servers
from simdist.data import AutoShardPolicy, Dataset, Options
from simdist.input.paced_iterator import PacedIterator
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.sources import has_next

__all__ = ["AlonePass", "Parts", "Pass", "PassInTurn", "ReplicaPass", "WorkerPass"]

AHEAD = 4  # closures for each worker that are scheduled

Parts: TypeAlias = Callable[[], Sequence[Tree]]
"""What a batch gives, in the order of its rows, one for each replica that has taken a part; computed when it is called."""


class Pass(ABC):
    """One pass over data; in a ``with`` block, after which nothing of it goes on, also where the block fails."""

    @abstractmethod
    def has_next(self) -> bool:
        """Whether there is one more batch."""

    @abstractmethod
    def take(self) -> Parts:
        """Take the next batch."""

    def end(self) -> None:
        """Nothing more will be taken: wait for what is under way."""
        return

    def give_up(self) -> None:
        """Nobody wants the results any more: let nothing go on."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.end()
        else:
            self.give_up()


class ReplicaPass(Pass):
    """A pass of all replicas.

    Args:
        strategy: whose replicas.
        dataset: of global batches.
        step: of an iterator and `given`; what a replica does with its part.
        given: values that the step is given.
    """

    def __init__(self, strategy: SynchronousStrategy, dataset: Dataset, step: StepFunction, given: Tree) -> None:
        self.strategy = strategy
        # Whatever the dataset says of sharding: each row counts once, and batches are those of the plain dataset.
        options = Options()
        options.experimental_distribute.auto_shard_policy = AutoShardPolicy.DATA
        self.iterator = iter(strategy.distribute_dataset(dataset.with_options(options)))
        self.step = step
        self.given = given

    def has_next(self) -> bool:
        return self.iterator.has_next()

    def take(self) -> Parts:
        # How many workers there are may change in a step; how many replicas each of them has does not.
        per_worker = self.strategy.num_replicas_in_sync // self.strategy.num_workers
        outcome = self.strategy.step(self.step, (self.iterator, self.given), {})
        return lambda: _in_order_of_rows(self.strategy.local_results(outcome.value()), per_worker)


def _in_order_of_rows(results: Sequence[Tree], per_worker: int) -> list[Tree]:
    """What replicas give, worker after worker, in the order of their parts of the batch: of W workers, worker w has parts w, w + W, ..."""
    return [result for local_rank in range(per_worker) for result in results[local_rank::per_worker]]


class WorkerPass(Pass):
    """A pass of all workers. Batches are handed out by number, and their results come in the order of the numbers.

    In rounds each batch is a closure, as each step of a training is.

    Args:
        strategy: whose workers.
        dataset: whose batches are handed out.
        step, given: as of `ReplicaPass`, for a whole batch.
        steps: how many batches are wanted at most; None: all.
        per_closure: how many of them go to a worker at once.
    """

    def __init__(
        self, strategy: ParameterServerStrategy, dataset: Dataset, step: StepFunction, given: Tree, steps: int | None, per_closure: int
    ) -> None:
        self.coordinator = ClusterCoordinator(strategy)
        self.coordinator.leftovers.end()
        self.iterator = iter(dataset)
        self.left = steps
        self.ahead = AHEAD * len(strategy.workers)
        self.handed_out = HandedOut()
        self.step = step
        self.given = given
        self.per_closure = 1 if strategy.serving.in_rounds else per_closure
        self._scheduled: deque[Result] = deque()
        self._ended: deque[Callable[[], object]] = deque()  # results of the batches of the last closure that are not taken

    def has_next(self) -> bool:
        self._schedule()
        return bool(self._ended or self._scheduled)

    def _schedule(self) -> None:
        while len(self._scheduled) < self.ahead and self.left != 0:
            wanted = self.per_closure if self.left is None else min(self.per_closure, self.left)
            batches, count = self.handed_out.next_batches(self.iterator, wanted)
            if not count:
                self.left = 0
                return
            self.left = None if self.left is None else self.left - count
            self._scheduled.append(self.coordinator.schedule_steps(self.step, (batches, self.given), {}, count, keeps_each=True))

    def take(self) -> Parts:
        if not self._ended:
            self._end_closure()
        value = self._ended.popleft()
        return lambda: list(self.coordinator.strategy.local_results(value()))

    def _end_closure(self) -> None:
        """Wait for the closure of the next batches."""
        try:
            found = self._scheduled[0].of_each_step()
        except Exception:
            self.coordinator.join()
            raise
        self._scheduled.popleft()
        self._ended.extend(found)

    def end(self) -> None:
        self.coordinator.join()
        await_servers(self.coordinator)  # a callback that has called evaluate may be followed by one that reads variables

    def give_up(self) -> None:
        self.coordinator.leftovers.leave(self._scheduled)


class AlonePass(Pass):
    """A pass of the first replica of this program, which takes whole batches.

    Args:
        strategy: whose replica.
        dataset: of batches.
        step, given: as of `ReplicaPass`, for a whole batch.
    """

    def __init__(self, strategy: SynchronousStrategy, dataset: Dataset, step: StepFunction, given: Tree) -> None:
        self.alone = strategy.alone
        self.iterator = PacedIterator(dataset, strategy.engine.now)
        self.step = step
        self.given = given

    def has_next(self) -> bool:
        return has_next(self.iterator)

    def take(self) -> Parts:
        outcome = self.alone.step(self.step, (self.iterator, self.given))
        return lambda: [outcome.value()]


class PassInTurn(Pass):
    """A pass that takes batch after batch, each with the state that the one before it has left.

    Args:
        strategy: on whose first replica it is, or on one of whose workers after the other.
        dataset: that is read.
        step: of an iterator and the state; it returns what a batch gives, and the next state.
        state: at the beginning.

    Attributes:
        state: after the last batch.
    """

    def __init__(self, strategy: SynchronousStrategy | ParameterServerStrategy, dataset: Dataset, step: StepFunction, state: Tree) -> None:
        self.iterator = PacedIterator(dataset, strategy.engine.now)
        self.state = state
        self.step = step
        self._take = _by_a_worker(strategy) if isinstance(strategy, ParameterServerStrategy) else _by_a_replica(strategy)

    def has_next(self) -> bool:
        return has_next(self.iterator)

    def take(self) -> Parts:
        found, self.state = self._take(self.step, self.iterator, self.state)
        return lambda: [found]


Taking: TypeAlias = Callable[[StepFunction, PacedIterator, Tree], tuple[Tree, Tree]]


def _by_a_worker(strategy: ParameterServerStrategy) -> Taking:
    coordinator, handed_out = ClusterCoordinator(strategy), HandedOut(whole=True)
    coordinator.leftovers.end()

    def take(step: StepFunction, iterator: PacedIterator, state: Tree) -> tuple[Tree, Tree]:
        batches = handed_out.batches([iterator.next_batch()])
        result = coordinator.schedule_steps(step, (batches, state), {}, 1)
        try:
            coordinator.join()
        except BaseException:  # also by Ctrl-C
            coordinator.leftovers.leave([result])
            raise
        await_servers(coordinator)
        return result.value()  # pyright: ignore[reportReturnType]

    return take


def _by_a_replica(strategy: SynchronousStrategy) -> Taking:
    alone = strategy.alone

    def take(step: StepFunction, iterator: PacedIterator, state: Tree) -> tuple[Tree, Tree]:
        return alone.step(step, (iterator, state)).value()

    return take
