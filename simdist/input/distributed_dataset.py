"""A dataset as a strategy distributes it: each step, every replica gets its part of a global batch, or a batch of its pipeline.

Which rows go where is decided by the input (distributed_input.py, function_input.py); here are the replicas that take them,
and the time that it takes to make them (prefetch.py). A worker whose pipeline is slower than its steps waits for input.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from simdist.data import Dataset
from simdist.data.caching import give_common_seeds
from simdist.data.leaves import Element, Tree
from simdist.data.options import AutoShardPolicy
from simdist.input.context import InputContext, InputOptions, checked_options
from simdist.input.distributed_input import DistributedInput
from simdist.input.distributed_iterator import DistributedIterator
from simdist.input.function_input import FunctionInput
from simdist.input.layout import ReplicaLayout
from simdist.input.view import InputView

__all__ = ["DistributedDataset"]

State = TypeVar("State")
Source = Dataset | Iterable[Element] | Callable[[InputContext], Dataset]


class DistributedDataset:
    """What `strategy.distribute_dataset` and `strategy.distribute_datasets_from_function` return.

    Args:
        strategy: whose replicas take it.
        source: a dataset of global batches of shape [b, ...], or any iterable of them; or a function of an `InputContext`.
        options: `InputOptions`.

    Attributes:
        input: the source, shared among the workers that there were when it was last asked for.

    Raises:
        TypeError: `options` are something else, or the source is an array or a structure of arrays, whose rows are no batches.
        InvalidArgumentError: the pipeline is to run on a device.

    Example:
        >>> import simdist as sd
        >>> distributed = sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(3))
        >>> [[len(part) for part in element.values] for element in distributed]
        [[2, 1], [1, 0]]
    """

    def __init__(self, strategy: ReplicaLayout, source: Source, options: InputOptions | None = None) -> None:
        self.options = checked_options(options)
        if isinstance(source, (tuple, Mapping, str, bytes)) or hasattr(source, "__array__"):
            raise TypeError(
                f"distribute_dataset takes an sd.Dataset of global batches, or another iterable of them; got {type(source).__name__}. "
                "Write sd.Dataset.from_tensor_slices(...).batch(global_batch_size)."
            )
        self.strategy = strategy
        self._source = source
        self.input = self._share()

    def _share(self) -> InputView:
        """The source, shared among the workers that there are now."""
        strategy, source = self.strategy, self._source
        per_worker = strategy.num_replicas_in_sync // strategy.num_workers
        whole: InputView
        if callable(source) and not isinstance(source, Dataset):
            whole = FunctionInput(source, strategy.workers_at_first, per_worker, self.options)
        else:
            whole = DistributedInput(source, strategy.num_workers, per_worker, input_options=self.options)
            if whole.policy is not AutoShardPolicy.DATA and strategy.workers_at_first > strategy.num_workers:
                whole = DistributedInput(source, strategy.workers_at_first, per_worker, input_options=self.options)
        if whole.num_workers > strategy.num_workers:
            whole.without_others(strategy.present_workers)
        if strategy.launched and isinstance(whole, DistributedInput) and whole.policy is not AutoShardPolicy.OFF:
            give_common_seeds(whole.dataset.node)  # a row would be lost, or come twice, where mains had other orders
        return whole.worker_pipeline(strategy.worker_index) if strategy.launched else whole

    def share_again(self) -> InputView:
        """Share the source among the workers that there are now, where they have become fewer or more."""
        self.input = self._share()
        return self.input

    @property
    def element_spec(self) -> Tree:
        """Shape and dtype of what one replica gets; the first dimension is None where parts may differ."""
        return self.input.element_spec

    def cardinality(self) -> int:
        """Number of steps; -1 without an end, -2 where only running can tell."""
        return self.input.cardinality()

    def reduce(self, initial_state: State, reduce_func: Callable[[State, Element], State]) -> State:
        """One value of all elements: ``reduce_func(state, element)``, one after the other."""
        state = initial_state
        for element in self:
            state = reduce_func(state, element)
        return state

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self.strategy, self.input, self.share_again, self.options.experimental_per_replica_buffer_size)
