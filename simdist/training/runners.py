"""Runners of the steps of an epoch: one after the other on the replicas, or as closures by a coordinator."""

from __future__ import annotations

import warnings
from typing import Any, cast

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, DistributedDataset, DistributedIterator, InputContext
from simdist.strategies.base import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.sources import first_batch
from simdist.training.step import build, train_step_of

__all__ = ["CoordinatedSteps", "LocalSteps", "runner_of"]


def runner_of(model: Any, source: Any, steps: int | None) -> LocalSteps | CoordinatedSteps:
    """The runner for this model's strategy.

    Raises:
        InvalidArgumentError: parameter servers, and the number of steps of an epoch is not known.
    """
    if not isinstance(model.simdist_strategy, ParameterServerStrategy):
        return LocalSteps(model, source)
    if steps is None:
        raise InvalidArgumentError(
            "steps_per_epoch is missing: only running the dataset can tell its length, and each worker runs its own part. "
            "Pass steps_per_epoch=."
        )
    return CoordinatedSteps(model, source)


class LocalSteps:
    """Steps on the replicas of a synchronous strategy, one after the other."""

    def __init__(self, model: Any, source: Any) -> None:
        self.model = model
        self.strategy = model.simdist_strategy
        self.source = source
        self.iterator = self._fresh()
        build(model, first_batch("fit", self.iterator))
        self.step = train_step_of(model)

    def _fresh(self) -> DistributedIterator:
        if isinstance(self.source, DistributedDataset):
            return iter(self.source)
        distribute = (
            self.strategy.distribute_datasets_from_function if isinstance(self.source, DatasetCreator) else self.strategy.distribute_dataset
        )
        return cast(DistributedIterator, iter(distribute(self.source)))

    def epoch(self, steps: int | None, callbacks: Any) -> int:
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

    def __init__(self, model: Any, source: Any) -> None:
        self.model = model
        self.coordinator = ClusterCoordinator(model.simdist_strategy)
        make = source.dataset_fn if isinstance(source, DistributedFromFunction) else source
        distributed = DistributedFromFunction(make)
        workers = len(model.simdist_strategy.workers)
        if isinstance(source, Dataset):
            distributed = DistributedFromFunction(lambda context: _part(source, context))
        self.dataset = self.coordinator.create_per_worker_dataset(distributed)
        self.iterator = iter(self.dataset)
        sample = source if isinstance(source, Dataset) else make(InputContext(workers, 0, 1))
        build(model, first_batch("fit", iter(sample)))
        self.step = train_step_of(model)

    def epoch(self, steps: int | None, callbacks: Any) -> int:
        """Run the steps of an epoch; return their number."""
        assert steps is not None
        per_closure = int(self.model.steps_per_execution)
        done = 0
        while done < steps:
            count = min(per_closure, steps - done)
            self.coordinator.schedule_steps(self.step, (self.iterator,), {}, count)
            done += count
        self.coordinator.join()
        return done


def _part(source: Dataset, context: InputContext) -> Dataset:
    """What a worker reads of a dataset that was given whole, again and again: its own part; a part for two where there are few batches."""
    count, batches = context.num_input_pipelines, source.cardinality()
    if 0 < batches < count:
        count = batches
    return source.shard(count, context.input_pipeline_id % count).repeat()
