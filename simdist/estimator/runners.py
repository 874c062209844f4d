"""Who takes the steps of a training: the replicas of a synchronous strategy, or workers by a coordinator.

An input_fn is called once for each worker, and its batches are those of one replica, so N replicas take N batches in a step. Where batches
are an element of a replica's own dataset, nothing is shared or split: users shard in their input_fn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.coordinator.remote_value import Result
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError, OutOfRangeError
from simdist.estimator.unchecked_losses import UncheckedLosses
from simdist.input import InputContext
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.runtime.sleep import sleep
from simdist.strategies.base import Strategy
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.reduction import ReduceOp
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.training.stepping_strategies import stepping

__all__ = ["DatasetFunction", "ReplicaRunner", "Runner", "WorkerRunner", "training_runner"]

DatasetFunction = Callable[[InputContext], Dataset]
AHEAD = 4  # closures for each worker that are scheduled

DELAY_S = 5.0
"""Between the starts of two workers with parameter servers, as in TensorFlow."""

NO_ELEMENTS = "input_fn gave a dataset without elements. Give it some."


class Runner(Protocol):
    """Takes the steps of a training."""

    def sample(self) -> Tree:
        """A batch with the shapes of those that a replica gets; none is taken.

        Raises:
            OutOfRangeError: there is none.
        """
        ...

    def advance(self, step: StepFunction, limit: int) -> int:
        """Take steps until one more is done; no more than `limit` are under way. How many were done: 1, or 0 where the data end."""
        ...

    def finish(self) -> None:
        """Wait for the steps that were begun."""
        ...

    def leave(self) -> None:
        """The training ends early: steps that were begun must not count in a later one."""
        ...

    def loss(self) -> float:
        """That of the newest step that is done."""
        ...

    def had_nan(self) -> bool:
        """Whether a loss since the last call was NaN: its gradients may be in the variables, whatever the newest loss is."""
        ...


class ReplicaRunner:
    """Steps of the replicas, one after the other.

    Args:
        strategy: whose replicas.
        dataset_fn: the dataset of a worker.
        trains: whether the steps return losses.
    """

    def __init__(self, strategy: SynchronousStrategy, dataset_fn: DatasetFunction, trains: bool = False) -> None:
        self.strategy = strategy
        self._trains = trains
        self.iterator = iter(strategy.distribute_datasets_from_function(dataset_fn))
        self._outcome: StepOutcome | None = None
        self._losses = UncheckedLosses()

    def sample(self) -> Tree:
        if not self.iterator.has_next():
            raise OutOfRangeError(self._no_step())
        return self.iterator.sample().value()

    def advance(self, step: StepFunction, limit: int) -> int:
        try:
            self._outcome = self.strategy.step(step, (self.iterator,), {})
        except OutOfRangeError:
            if self._outcome is None:
                raise OutOfRangeError(self._no_step()) from None
            return 0
        if self._trains:
            self._losses.add(self._outcome)
        return 1

    def _no_step(self) -> str:
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return NO_ELEMENTS
        return (
            f"input_fn gave a dataset without elements, or, where batch(n, drop_remainder=True) makes all batches full, with fewer of them "
            f"than the {replicas} replicas take in a step. Give it more."
        )

    def finish(self) -> None:
        """Each step is over when it has been taken."""

    def leave(self) -> None:
        """Each step is over when it has been taken."""

    def loss(self) -> float:
        if self._outcome is None:
            return float("nan")
        value = self._outcome.value()
        return float(value if self.strategy.num_replicas_in_sync == 1 else self.strategy.reduce(ReduceOp.SUM, value, axis=None))

    def had_nan(self) -> bool:
        found = self._losses.had_nan()
        if self._outcome is None or not self.strategy.launched:
            return found
        # Launched mains know the losses of their replicas alone, and all of them save or none does. An integer, as no gradient is one: a
        # main whose data end before those of others comes here while they add up gradients, which must not be taken for each other.
        return int(self.strategy.reduce(ReduceOp.SUM, np.int32(found), axis=None)) > 0

    def values(self) -> Tree:
        """What the newest step gave, on the only replica."""
        assert self._outcome is not None
        return self._outcome.value()


class WorkerRunner:
    """Steps as closures, a few for each worker at a time. The training ends with the data of the first worker that has no more.

    Args:
        strategy: whose workers.
        dataset_fn: the dataset of a worker.
        max_delay_s: virtual seconds, after which the last worker begins; 0: all begin at once.
    """

    def __init__(self, strategy: ParameterServerStrategy, dataset_fn: DatasetFunction, max_delay_s: float = 0.0) -> None:
        self.strategy = strategy
        self.dataset_fn = dataset_fn
        self.coordinator = _coordinator(strategy, max_delay_s)
        self.coordinator.leftovers.end()
        self.iterator = iter(self.coordinator.create_per_worker_dataset(DistributedFromFunction(dataset_fn)))
        self._under_way: deque[Result] = deque()
        self._newest: Result | None = None
        self._losses = UncheckedLosses()
        self._is_over = False

    def sample(self) -> Tree:
        # The chief is a worker in TensorFlow, and calls its input_fn as well.
        for batch in self.dataset_fn(InputContext(len(self.strategy.workers), 0, 1)):
            return batch
        raise OutOfRangeError(NO_ELEMENTS)

    def advance(self, step: StepFunction, limit: int) -> int:
        while not self._is_over and len(self._under_way) < min(limit, AHEAD * len(self.strategy.workers)):
            self._under_way.append(self.coordinator.schedule_steps(step, (self.iterator,), {}, 1))
        return self._follow()

    def finish(self) -> None:
        while self._under_way:
            self._follow()

    def leave(self) -> None:
        self.coordinator.leftovers.leave(self._under_way)

    def _follow(self) -> int:
        """Wait for the oldest closure; 0 where a worker had no more data."""
        if not self._under_way:
            return 0
        result = self._under_way[0]
        try:
            result.wait()
        except Exception as error:
            self._end(error)
            return 0
        self._newest = self._under_way.popleft()
        self._losses.add(self._newest)
        return 1

    def _end(self, error: Exception) -> None:
        """No more steps: the data of a worker have ended, or a closure has failed.

        Raises:
            Exception: the error of that closure.
        """
        self._under_way.clear()
        self._is_over = True
        try:
            self.coordinator.join()
        except OutOfRangeError:
            return
        if not isinstance(error, OutOfRangeError):
            raise error

    def loss(self) -> float:
        return float("nan") if self._newest is None else float(np.asarray(self._newest.value()))

    def had_nan(self) -> bool:
        return self._losses.had_nan()


def _coordinator(strategy: ParameterServerStrategy, max_delay_s: float) -> ClusterCoordinator:
    """The coordinator of a strategy; where workers are to begin one after the other, the first of them begins now."""
    if strategy.coordinator is not None or not max_delay_s:
        return ClusterCoordinator(strategy)
    first_s = min(DELAY_S, max_delay_s)
    sleep(first_s)
    between_s = DELAY_S if max_delay_s > first_s else 0.0
    return ClusterCoordinator(strategy, start_delay_s=between_s, start_delay_max_s=max_delay_s - first_s)


def training_runner(strategy: Strategy, dataset_fn: DatasetFunction, max_delay_s: float) -> Runner:
    """Who takes the steps of a training under this strategy.

    Args:
        strategy: trains.
        dataset_fn: gives the dataset of each worker.
        max_delay_s: virtual seconds, after which the last worker of parameter servers begins.

    Raises:
        InvalidArgumentError: workers of parameter servers have several devices.
        TypeError: a strategy of a user's own whose steps nobody runs.
    """
    strategy = stepping(strategy, "An Estimator")
    if isinstance(strategy, ParameterServerStrategy):
        if strategy.num_replicas_in_sync > 1:
            raise InvalidArgumentError(
                f"An Estimator was given a ParameterServerStrategy with {strategy.num_replicas_in_sync} devices per worker, and its "
                "workers take steps on one. Leave devices_per_worker= out, or train with a ClusterCoordinator."
            )
        return WorkerRunner(strategy, dataset_fn, max_delay_s)
    return ReplicaRunner(strategy, dataset_fn, trains=True)
