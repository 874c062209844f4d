"""Runners of the steps of an epoch: one after the other on the replicas, or as closures by a coordinator."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from keras.src.callbacks import CallbackList

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, DistributedDataset, DistributedIterator, InputContext
from simdist.strategies.base import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.bundling import bundled
from simdist.training.keras_model import StrategyModel, fixed_steps_per_execution, strategy_of
from simdist.training.sources import Source, first_batch
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
        build(model, first_batch("fit", self.iterator))
        self.step = train_step_of(model)

    def _fresh(self) -> DistributedIterator:
        source = self.source
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
        if steps is None or (isinstance(self.source, Dataset) and self.source.cardinality() == steps):
            self.iterator = self._fresh()
        done = 0
        while steps is None or done < steps:
            if not self.iterator.has_next():
                if steps is not None:
                    warnings.warn(f"The dataset ran out after {done} of {steps} steps; training stops here.", stacklevel=4)
                    self.model.stop_training = True
                break
            callbacks.on_train_batch_begin(done)
            self.strategy.step(self.step, (self.iterator,), {})
            callbacks.on_train_batch_end(done, {})
            done += 1
        return done


class CoordinatedSteps:
    """Steps as closures on the workers of a parameter-server strategy."""

    def __init__(self, model: StrategyModel, strategy: ParameterServerStrategy, source: Source) -> None:
        self.model = model
        self.strategy = strategy
        self.coordinator = ClusterCoordinator(strategy)
        self.per_closure = fixed_steps_per_execution(model)
        assert not isinstance(source, DistributedDataset)
        source = source.dataset if isinstance(source, DistributedFromFunction) and source.dataset is not None else source
        workers = len(strategy.workers)
        make = _maker(source)
        self.dataset = self.coordinator.create_per_worker_dataset(DistributedFromFunction(make))
        self.iterator = iter(self.dataset)
        sample = source if isinstance(source, Dataset) else make(InputContext(workers, 0, 1))
        self.sample = iter(sample)
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


def _maker(source: Dataset | DatasetCreator | DistributedFromFunction) -> Callable[[InputContext], Dataset]:
    """What makes the dataset of a worker."""
    if isinstance(source, Dataset):
        return lambda context: _part(source, context)
    return source.dataset_fn if isinstance(source, DistributedFromFunction) else source


def _part(source: Dataset, context: InputContext) -> Dataset:
    """What a worker reads of a dataset that was given whole, again and again: its own part; a part for two where there are few batches."""
    count, batches = context.num_input_pipelines, source.cardinality()
    if 0 < batches < count:
        count = batches
    return source.shard(count, context.input_pipeline_id % count).repeat()
