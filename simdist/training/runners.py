"""Runners of the steps of an epoch: one after the other on the replicas, or as closures by a coordinator."""

from __future__ import annotations

import warnings

from keras.src.callbacks import CallbackList

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, DistributedDataset, DistributedIterator, InputContext
from simdist.strategies.base import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.bundling import bundled
from simdist.training.keras_model import StrategyModel, fixed_steps_per_execution, strategy_of
from simdist.training.sources import Source, first_batch, per_worker
from simdist.training.step import build, train_step_of

__all__ = ["CoordinatedSteps", "LocalSteps", "runner_of"]


def runner_of(model: StrategyModel, source: Source, steps: int | None) -> LocalSteps | CoordinatedSteps:
    """The runner for this model's strategy.

    Raises:
        InvalidArgumentError: parameter servers, and the number of steps of an epoch is not known.
    """
    strategy = strategy_of(model)
    if not isinstance(strategy, ParameterServerStrategy):
        assert isinstance(strategy, SynchronousStrategy)
        return LocalSteps(model, strategy, source)
    if steps is None:
        raise InvalidArgumentError(
            "steps_per_epoch is missing: only running the dataset can tell its length, and each worker runs its own part. "
            "Pass steps_per_epoch=."
        )
    return CoordinatedSteps(model, strategy, source)


class LocalSteps:
    """Steps on the replicas of a synchronous strategy, one after the other."""

    def __init__(self, model: StrategyModel, strategy: SynchronousStrategy, source: Source) -> None:
        self.model = model
        self.strategy = strategy
        self.source = source
        self.iterator = self._fresh()
        self.is_first = True
        build(model, first_batch("fit", self.iterator))
        self.step = train_step_of(model)

    def _fresh(self) -> DistributedIterator:
        source = self.source.data
        if isinstance(source, DistributedDataset):
            return iter(source)
        if isinstance(source, DatasetCreator):
            return iter(self.strategy.distribute_datasets_from_function(source))
        if isinstance(source, DistributedFromFunction):
            raise TypeError(
                "fit was given datasets that another strategy distributes from a function. Call distribute_datasets_from_function of the "
                "model's strategy."
            )
        return iter(self.strategy.distribute_dataset(source))

    def epoch(self, steps: int | None, callbacks: CallbackList) -> int:
        """Run the steps of an epoch; return their number."""
        if self._begins_again(steps):
            self.iterator = self._fresh()
        done = 0
        while steps is None or done < steps:
            if not self.iterator.has_next():
                if steps is not None:
                    self._ran_out(done, steps)
                break
            callbacks.on_train_batch_begin(done)
            self.strategy.step(self.step, (self.iterator,), {})
            callbacks.on_train_batch_end(done, {})
            done += 1
        return done

    def has_next(self) -> bool:
        """Whether there is another batch; reads it, if it was not read yet."""
        return self.iterator.has_next()

    def _begins_again(self, steps: int | None) -> bool:
        """Whether this epoch begins with the first batch, as it does in Keras: where an epoch is a pass, or all batches were read."""
        source, is_first = self.source, self.is_first
        self.is_first = False
        if not source.can_restart:
            return False
        is_pass = steps is None or (source.is_plain and source.num_batches == steps)
        return is_pass or (is_first and source.may_change) or not self.iterator.has_next()

    def _ran_out(self, done: int, steps: int) -> None:
        further = "the next epoch begins with the first batch" if self.source.can_restart else "training stops here"
        warnings.warn(f"The dataset ran out after {done} of {steps} steps; {further}.", stacklevel=5)
        self.model.stop_training = not self.source.can_restart or self.model.stop_training


class CoordinatedSteps:
    """Steps as closures on the workers of a parameter-server strategy."""

    def __init__(self, model: StrategyModel, strategy: ParameterServerStrategy, source: Source) -> None:
        self.model = model
        self.strategy = strategy
        self.coordinator = ClusterCoordinator(strategy)
        self.per_closure = fixed_steps_per_execution(model)
        workers = len(strategy.workers)
        make = per_worker(source)
        self.dataset = self.coordinator.create_per_worker_dataset(DistributedFromFunction(make))
        self.iterator = iter(self.dataset)
        self.sample = iter(source if source.is_plain else make(InputContext(workers, 0, 1)))
        build(model, first_batch("fit", self.sample))
        self.step = train_step_of(model)

    def epoch(self, steps: int | None, callbacks: CallbackList) -> int:
        """Run the steps of an epoch; return their number."""
        assert steps is not None
        if self.per_closure is None:
            self.per_closure = bundled(self.step, self.strategy, self.sample, steps)
        per_closure, done = self.per_closure, 0
        while done < steps:
            count = min(per_closure, steps - done)
            self.coordinator.schedule_steps(self.step, (self.iterator,), {}, count)
            done += count
        self.coordinator.join()
        return done

    def has_next(self) -> bool:
        """Always: the workers repeat their data."""
        return True
