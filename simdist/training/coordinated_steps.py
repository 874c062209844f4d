"""Steps of `fit` as closures on the workers of a parameter-server strategy.

A dataset is handed out batch by batch, so that an epoch visits each example once. Where a function makes a dataset on each worker
(a `DatasetCreator`) and the number of steps is given, each closure takes what its worker's own iterator gives, epoch after epoch.

Hooks of batches are called where a closure is scheduled, and where one has ended, in the order in which they end. Where a callback follows
batches, only as many closures are scheduled as there are workers: what it changes counts for the next one, and it can end the training.
In rounds the hooks of all closures that have ended come before the next ones are scheduled, and a round waits for those that are still to
come: how long a callback takes does not decide who is in which round.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.coordinator.handed_out import HandedOut
from simdist.coordinator.remote_value import Result
from simdist.coordinator.returning_servers import await_servers
from simdist.coordinator.waits import Waits
from simdist.data import Dataset
from simdist.data.iterator import DatasetIterator
from simdist.errors import InvalidArgumentError
from simdist.input import DistributedDataset
from simdist.program.saved_parts import SavedState
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.server_input import first_pipeline
from simdist.training.bundling import bundled
from simdist.training.hooks import Hooks
from simdist.training.keras_model import Logs, StrategyModel, fixed_steps_per_execution
from simdist.training.logs import StepLogs
from simdist.training.sources import ENDLESS, Source, first_batch, has_next
from simdist.training.step import build, train_step_of

__all__ = ["CoordinatedSteps"]


class Supply(Protocol):
    """Where closures get their batches."""

    @property
    def cardinality(self) -> int:
        """Batches of an epoch; negative where nobody knows."""
        ...

    def begin(self, steps: int | None) -> None:
        """An epoch of so many steps begins; None: to the end of the data."""
        ...

    def take(self, count: int) -> tuple[object, int]:
        """The argument of a closure of `count` steps, and how many it has: fewer where the data end."""
        ...

    def has_next(self) -> bool:
        """Whether there is another batch, as far as the coordinator knows."""
        ...

    def position(self) -> SavedState:
        """Where the data stand; None where the coordinator does not know."""
        ...

    def go_to(self, position: SavedState) -> None:
        """Go to such a position."""
        ...


class CoordinatedSteps:
    """Steps as closures on the workers of a parameter-server strategy."""

    def __init__(self, model: StrategyModel, strategy: ParameterServerStrategy, source: Source) -> None:
        self.model = model
        self.strategy = strategy
        self.coordinator = ClusterCoordinator(strategy)
        self.coordinator.leftovers.end()
        self.per_closure = 1 if strategy.serving.in_rounds else fixed_steps_per_execution(model)
        data = source.data
        assert not isinstance(data, DistributedDataset)
        self.supply: Supply
        if isinstance(data, Dataset):
            self.sample = iter(data)
            self.supply = _Handing(source, self.sample)
        else:
            make, options = (data.dataset_fn, data.options) if isinstance(data, DistributedFromFunction) else (data, data.input_options)
            distributed = strategy.distribute_datasets_from_function(make, options)
            self.sample = iter(first_pipeline(distributed, strategy.input_context(strategy.workers[0])))
            self.supply = _OfWorkers(self.coordinator, distributed)
        build(model, first_batch("fit", self.sample))
        self.step = train_step_of(model)
        self._logs = StepLogs(model)
        self._waits = Waits(strategy.engine)
        self._in_rounds = strategy.serving.in_rounds
        self._ended: deque[Result] = deque()
        self._open: dict[Result, int] = {}  # closures that have not ended, with their numbers of steps
        self._number = 0  # of the next batch
        self._since = 0  # batches since no closure was under way

    @property
    def is_quiet(self) -> bool:
        """Whether no closure is under way."""
        return not self._open

    def position(self) -> SavedState:
        """Where the dataset stands that is handed out; None where each worker has its own."""
        return self.supply.position()

    def go_to(self, position: SavedState) -> None:
        """Let it go there; the epoch before was handed out up to there."""
        self.supply.go_to(position)

    def settle(self) -> None:
        """Wait for servers that are down, or get back what they held, and will be back."""
        await_servers(self.coordinator)

    def epoch(self, steps: int | None, hooks: Hooks, done: int = 0) -> None:
        """Run the steps of an epoch, of which some are done; None: to the end of the data."""
        if self.per_closure is None:
            self.per_closure = bundled(self.step, self.strategy, self.sample, steps or max(self.supply.cardinality, 1))
        if not done:
            self.supply.begin(steps)
        ahead = len(self.strategy.workers) * (1 + (self.strategy.staleness or 0)) if hooks.follows_train else None
        self._ended.clear()
        self._open, self._number = {}, done
        try:
            self._run(steps, self.per_closure, ahead, hooks)
        except BaseException:
            if self.coordinator.leftovers.leave(self._open):
                self._open = {}
            raise

    def _run(self, steps: int | None, per_closure: int, ahead: int | None, hooks: Hooks) -> None:
        follows = ahead is not None
        self.coordinator.expect(follows)
        for result, count in self._closures(steps, per_closure, hooks):
            self._open[result] = count
            self._since += count
            if hooks.quiet_every is not None and self._since >= hooks.quiet_every:
                self._drain(hooks)
            while ahead is not None and len(self._open) >= ahead:
                self._follow_some(hooks)
            self.coordinator.expect(follows)
            if self.model.stop_training:
                break
        while self._open:
            self._follow(hooks)
        self.coordinator.join()

    def _follow_some(self, hooks: Hooks) -> None:
        """Wait for the next closure that ends, or for a round, before more are scheduled."""
        self._follow(hooks, is_last=False)
        while self._in_rounds and self._ended:
            self._follow(hooks, is_last=False)

    def _drain(self, hooks: Hooks) -> None:
        """Let all closures end, so that a backup can be saved."""
        while self._open:
            self._follow(hooks)
        self._since = 0

    def _closures(self, steps: int | None, per_closure: int, hooks: Hooks) -> Iterator[tuple[Result, int]]:
        """Schedule the closures of an epoch, one when the next is asked for."""
        done = self._number
        if done and self.model.stop_training:
            return  # it was stopped in this epoch before it was restored
        while steps is None or done < steps:
            argument, count = self.supply.take(per_closure if steps is None else min(per_closure, steps - done))
            if count:
                hooks.call.on_train_batch_begin(done)
                result = self.coordinator.schedule_steps(self.step, (argument,), {}, count)
                if result.ready.is_open:  # an engine without time has run it already
                    self._end(result)
                else:
                    result.ended = self._end
                yield result, count
            done += count
            if not count:
                if steps is not None:
                    warnings.warn(f"The dataset ran out after {done} of {steps} steps; training stops here.", stacklevel=6)
                    self.model.stop_training = True
                return

    def _end(self, result: Result) -> None:
        self._ended.append(result)
        self._waits.let_go()

    def _follow(self, hooks: Hooks, is_last: bool = True) -> None:
        """Wait for the next closure that ends, and call the hooks of its batches.

        Args:
            hooks: of the batches.
            is_last: whether all are scheduled that are to end before the next backup, or in this epoch.

        Raises:
            Exception: the closure's own error.
        """
        while not self._ended:
            self.coordinator.expect(False)
            self._waits.wait(f"the next of {len(self._open)} closures (fit)")
        self.coordinator.expect(not is_last)
        result = self._ended.popleft()
        if result.error is not None:
            self.coordinator.join()
            raise result.error
        self._number += self._open.pop(result)
        self._logs.outcome = result
        if hooks.follows_train:
            self.settle()
        hooks.call.on_train_batch_end(self._number - 1, self.logs() if hooks.reads_train_logs else {})

    def has_next(self) -> bool:
        """Whether there is another batch."""
        return self.supply.has_next()

    def logs(self) -> Logs:
        """Loss and metrics of the closures that are done."""
        return self._logs.values()


class _Handing:
    """A dataset that the coordinator hands out, batch by batch."""

    def __init__(self, source: Source, first: DatasetIterator) -> None:
        self.source = source
        self.handed_out = HandedOut()
        self._iterator = first
        self._is_first = True

    @property
    def cardinality(self) -> int:
        return self.source.cardinality()

    def begin(self, steps: int | None) -> None:
        is_first, self._is_first = self._is_first, False
        is_pass = steps is None or self.source.num_batches == steps or not self.has_next()
        if self.source.can_restart and (self.source.may_change if is_first else is_pass):
            self._iterator = iter(self.source)

    def take(self, count: int) -> tuple[object, int]:
        return self.handed_out.next_batches(self._iterator, count)

    def has_next(self) -> bool:
        return has_next(self._iterator)

    def position(self) -> SavedState:
        return self._iterator.state_dict()

    def go_to(self, position: SavedState) -> None:
        self._iterator.load_state_dict(position)
        # The backup of the beginning: nothing was taken yet, so the first epoch is still to come.
        self._is_first = self._is_first and not self._iterator.state_dict()["consumed"]


class _OfWorkers:
    """Datasets that a function makes: one for each worker, from which it takes; or all of them handed out, where they are to be read to
    their end."""

    def __init__(self, coordinator: ClusterCoordinator, distributed: DistributedFromFunction) -> None:
        self.make = distributed.dataset_fn
        self.strategy = coordinator.strategy
        self.iterator = iter(coordinator.create_per_worker_dataset(distributed))
        self.handed_out = HandedOut()
        self._pipelines: list[Dataset] = []
        self._left: deque[DatasetIterator] | None = None

    @property
    def cardinality(self) -> int:
        return -1

    def begin(self, steps: int | None) -> None:
        self._left = None
        if steps is not None:
            return
        if self.strategy.num_replicas_in_sync > 1:
            raise InvalidArgumentError(
                "steps_per_epoch is missing, and the data come from a function that each worker calls for its replicas "
                "(devices_per_worker=). Pass steps_per_epoch=, or the dataset itself, each of whose batches is split among them."
            )
        if not self._pipelines:
            self._pipelines = [self.make(self.strategy.input_context(worker)) for worker in self.strategy.workers]
        if any(pipeline.cardinality() == ENDLESS for pipeline in self._pipelines):
            raise InvalidArgumentError("steps_per_epoch is missing, and the dataset of a worker has no end. Pass steps_per_epoch=.")
        self._left = deque(map(iter, self._pipelines))

    def take(self, count: int) -> tuple[object, int]:
        if self._left is None:
            return self.iterator, count
        while self._left:
            pipeline = self._left[0]
            self._left.rotate(-1)
            argument, found = self.handed_out.next_batches(pipeline, count)
            if found:
                return argument, found
            self._left.remove(pipeline)
        return None, 0

    def has_next(self) -> bool:
        return True

    def position(self) -> None:
        return None

    def go_to(self, position: SavedState) -> None:
        """Nothing: the iterators of the workers are new."""
