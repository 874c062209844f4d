"""Runners of the steps of an epoch: one after the other on the replicas, or as closures by a coordinator (`coordinated_steps`)."""

from __future__ import annotations

import warnings
from typing import Protocol

from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, DistributedDataset, DistributedIterator
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.training.coordinated_steps import CoordinatedSteps
from simdist.training.hooks import Hooks
from simdist.training.keras_model import Logs, StrategyModel, fixed_steps_per_execution, strategy_of
from simdist.training.logs import StepLogs
from simdist.training.position import PositionedSteps
from simdist.training.sources import ENDLESS, Source, first_batch
from simdist.training.sources.datasets import DatasetSource
from simdist.training.step import build, train_step_of
from simdist.training.stepping_strategies import stepping

__all__ = ["ReplicaSteps", "Runner", "runner_of"]


class Runner(PositionedSteps, Protocol):
    """What runs the steps of a training, epoch by epoch."""

    def epoch(self, steps: int | None, hooks: Hooks, done: int = 0) -> None:
        """Run the steps of an epoch, of which some are done; None: to the end of the data."""
        ...

    def settle(self) -> None:
        """Wait until what callbacks may read and save is there: servers that will be back are awaited."""
        ...

    def logs(self) -> Logs:
        """Loss and metrics after the last step."""
        ...

    def has_next(self) -> bool:
        """Whether there is another batch; reads it, if it was not read yet."""
        ...


def runner_of(model: StrategyModel, source: Source) -> Runner:
    """The runner for this model's strategy.

    Raises:
        TypeError: a strategy of a user's own whose steps nobody runs.
    """
    strategy = stepping(strategy_of(model), "fit")
    if isinstance(strategy, ParameterServerStrategy):
        return CoordinatedSteps(model, strategy, source)
    return ReplicaSteps(model, strategy, source)


class ReplicaSteps:
    """Steps on the replicas of a synchronous strategy, one after the other."""

    def __init__(self, model: StrategyModel, strategy: SynchronousStrategy, source: Source) -> None:
        self.model = model
        self.strategy = strategy
        if isinstance(source.data, DatasetCreator):
            source = DatasetSource(strategy.distribute_datasets_from_function(source.data, source.data.input_options))
        self.source = source
        self.iterator = self._fresh()
        self.is_first = True
        build(model, first_batch("fit", self.iterator))
        self.step = train_step_of(model)
        self.per_execution = fixed_steps_per_execution(model) or 1
        self._logs = StepLogs(model)

    def _fresh(self) -> DistributedIterator:
        source = self.source.data
        if isinstance(source, DistributedDataset):
            return iter(source)
        assert not isinstance(source, DatasetCreator)
        if isinstance(source, DistributedFromFunction):
            raise TypeError(
                "fit was given datasets that another strategy distributes from a function. Call distribute_datasets_from_function of the "
                "model's strategy."
            )
        return iter(self.strategy.distribute_dataset(source))

    def settle(self) -> None:
        """Nothing: a step that a death has interrupted is over, or has failed."""

    is_quiet = True  # a step is over before the next one begins

    def position(self) -> Position:
        """Where the input stands, and whether the first epoch has begun: a backup of the beginning was saved before it."""
        return {**self.iterator.state_dict(), "begun": not self.is_first}

    def go_to(self, position: Position) -> None:
        """Let the input go to a position; the epoch before was read up to there."""
        self.iterator.load_state_dict(position)
        self.is_first = not position.get("begun", True)  # older backups do not say it

    def epoch(self, steps: int | None, hooks: Hooks, done: int = 0) -> None:
        """Run the steps of an epoch, of which some are done; None: to the end of the data."""
        if steps is None and self.source.cardinality() == ENDLESS:
            raise InvalidArgumentError("steps_per_epoch is missing, and the dataset of a worker has no end. Pass steps_per_epoch=.")
        if not done and self._begins_again(steps):
            self.iterator = self._fresh()
        while (steps is None or done < steps) and not (done and self.model.stop_training):  # at least one batch, as in Keras
            count = self.per_execution if steps is None else min(self.per_execution, steps - done)
            if not self.iterator.has_next():
                if steps is not None:
                    self._ran_out(done, steps)
                return
            hooks.call.on_train_batch_begin(done)
            for _ in range(count):
                if not self.iterator.has_next():
                    break
                self._logs.outcome = self.strategy.step(self.step, (self.iterator,), {})
                done += 1
            hooks.call.on_train_batch_end(done - 1, self.logs() if hooks.reads_train_logs else {})

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
        warnings.warn(f"The dataset ran out after {done} of {steps} steps; training stops here.", stacklevel=5)
        self.model.stop_training = True

    def logs(self) -> Logs:
        """Loss and metrics after the last step."""
        return self._logs.values()
