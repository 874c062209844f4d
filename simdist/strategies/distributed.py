"""Distributed datasets: each step, every replica gets its part of a global batch, or the next batch of its worker's pipeline.

Which rows go where is decided in `simdist.data`; here are the replicas that take them, and the time that it takes to make
them. A worker whose pipeline is slower than its steps waits for input, and its timeline shows it.

Taught in lesson 02.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import jax

from simdist.data import Batch, Dataset, DistributedInput, FunctionInput, InputOptions
from simdist.data.distributed import InputView
from simdist.data.optional_element import OptionalElement
from simdist.data.pace import Pace
from simdist.errors import InvalidArgumentError
from simdist.program.per_replica import PerReplica
from simdist.program.tracing import active_tracer

__all__ = ["DistributedDataset", "DistributedIterator"]

State = TypeVar("State")


class DistributedDataset:
    """What `strategy.distribute_dataset` and `strategy.distribute_datasets_from_function` return.

    Args:
        strategy: whose replicas take it.
        source: a dataset of global batches or any iterable of batches; or a function of an `InputContext`.
        options: `InputOptions`.

    Example:
        >>> import simdist as sd
        >>> distributed = sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(3))
        >>> [[len(part) for part in element.values] for element in distributed]
        [[2, 1], [1, 0]]
    """

    def __init__(self, strategy: Any, source: Any, options: InputOptions | None = None) -> None:
        self.strategy = strategy
        self.options = InputOptions() if options is None else options
        if not isinstance(cast(Any, self.options), InputOptions):
            raise TypeError(f"options is {options!r}; expected sd.InputOptions(...) or None")
        if self.options.experimental_place_dataset_on_device:
            raise InvalidArgumentError(
                "experimental_place_dataset_on_device=True is not simulated: the pipelines run on the workers' processors. Leave it out."
            )
        self._source = source
        self.input = self.shared()

    def shared(self) -> InputView:
        """The source, shared among the workers that there are now."""
        strategy, source = self.strategy, self._source
        workers = strategy.num_workers
        per_worker = strategy.num_replicas_in_sync // workers
        whole: InputView
        if callable(source) and not isinstance(source, Dataset):
            whole = FunctionInput(cast(Any, source), workers, per_worker, self.options)
        else:
            whole = DistributedInput(source, workers, per_worker, input_options=self.options)
        return cast(Any, whole).worker_pipeline(strategy.worker_index) if strategy.launched else whole

    @property
    def element_spec(self) -> Any:
        """Shape and dtype of what one replica gets; the first dimension is None where parts may differ."""
        return self.input.element_spec

    def cardinality(self) -> int:
        """Number of steps; -1 without an end, -2 where only running can tell."""
        count = getattr(self.input, "cardinality", None)
        return -2 if count is None else count()

    def reduce(self, initial_state: State, reduce_func: Callable[[State, Any], State]) -> State:
        """One value of all elements: ``reduce_func(state, element)``, one after the other."""
        state = initial_state
        for element in self:
            state = reduce_func(state, element)
        return state

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self)


class Part:
    """What one replica gets for a step: its rows, and how many all replicas get."""

    __slots__ = ("batch", "global_rows", "signature")

    def __init__(self, batch: Batch, global_rows: int | None) -> None:
        self.batch = batch
        self.global_rows = global_rows
        self.signature = (*batch.signature, global_rows)

    @property
    def table(self) -> Any:
        return self.batch.table

    @property
    def rows(self) -> Any:
        return self.batch.rows

    @property
    def structure(self) -> Any:
        return self.batch.structure

    @property
    def num_rows(self) -> int:
        return self.batch.num_rows

    def leaves(self) -> tuple[Any, ...]:
        """The arrays."""
        return tuple(self.batch.leaves())


class DistributedIterator:
    """One pass over a distributed dataset.

    ``next`` gives elements whose arrays are `PerReplica`; a step under @sd.function takes the iterator itself as an argument.
    """

    is_per_replica = True

    def __init__(self, dataset: DistributedDataset) -> None:
        self.dataset = dataset
        self.strategy = dataset.strategy
        self._begin()

    def _begin(self) -> None:
        """Make a view for each replica that there is now."""
        self.steps = iter(self.dataset.input)
        self.parts: deque[list[Part]] = deque()
        self.first = 0  # the number of the element at the left end of `parts`
        self.views = [View(self, local_rank) for local_rank in range(len(self.strategy.ranks))]
        per_worker = max(1, self.strategy.num_replicas_in_sync // self.strategy.num_workers)
        self._per_worker = per_worker
        self._paces = [self._pace() for _ in range(-(-len(self.views) // per_worker))]
        self._ready_s: list[dict[int, float]] = [{} for _ in self._paces]

    def _pace(self) -> Pace:
        source = self.dataset.input.dataset if isinstance(self.dataset.input, DistributedInput) else None
        seconds = 0.0 if source is None else source.options().seconds_per_element
        buffer = max(0 if source is None else source.prefetched, self.dataset.options.experimental_per_replica_buffer_size)
        return Pace(seconds, buffer, self.strategy.engine.now)

    def view(self, local_rank: int) -> View:
        """The elements' parts of one replica."""
        return self.views[local_rank]

    def next_batch(self) -> Any:
        """Marks this as an iterator; replicas take their parts from their views."""
        raise TypeError("A distributed iterator is taken replica by replica; pass it to a step, or use next(iterator).")

    def element(self, number: int) -> list[Part]:
        """The parts of an element, by its number."""
        while len(self.parts) <= number - self.first:
            step = self.steps.peek(len(self.parts))
            self.parts.append([Part(part, step.num_rows) for worker in step.parts for part in worker])
        return self.parts[number - self.first]

    def ready_s(self, local_rank: int, number: int, now_s: float) -> float:
        """When the worker of a replica has an element that is wanted now."""
        worker = local_rank // self._per_worker
        known = self._ready_s[worker]
        if number not in known:
            known[number] = self._paces[worker].take(now_s)
            known.pop(number - 2, None)
        return known[number]

    def has_next(self) -> bool:
        """Whether there is an element that not all replicas have taken."""
        try:
            self.views[0].peek(0)
        except StopIteration:
            return False
        return True

    def sample(self) -> Any:
        """A part of the next element that has rows, to build a model with."""
        return max(self.element(self.views[0].number), key=lambda part: part.num_rows).batch

    def forget(self) -> None:
        """Drop the elements that all replicas have taken."""
        oldest = min(view.number for view in self.views)
        while self.first < oldest:
            self.parts.popleft()
            self.steps.next_step()
            self.first += 1

    def state_dict(self) -> dict[str, Any]:
        """The position, as plain numbers."""
        return self.steps.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position.

        Raises:
            InvalidArgumentError: it belongs to another dataset.
        """
        self.steps.load_state_dict(state)
        self.parts.clear()
        self.first = 0
        for view in self.views:
            view.number = 0

    def restart(self, state: dict[str, Any]) -> None:
        """Go to a saved position, with the replicas that there are now."""
        self.dataset.input = self.dataset.shared()
        self._begin()
        self.steps.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        tracer = active_tracer()
        if tracer is not None:
            raise InvalidArgumentError(
                "next(iterator) of a distributed dataset was called inside strategy.run. Take the element outside, and pass it on: "
                "strategy.run(fn, args=(next(iterator),))."
                if tracer.in_replica
                else "A step reached for an iterator that it was not given. Give it as an argument: step(iterator)."
            )
        if not self.has_next():
            raise StopIteration
        parts = [view.next_batch() for view in self.views]
        if self.strategy.num_replicas_in_sync == 1:
            return parts[0].batch.value()
        leaves = [PerReplica(leaf, parts[0].global_rows) for leaf in zip(*(part.leaves() for part in parts), strict=True)]
        return jax.tree_util.tree_unflatten(parts[0].structure, leaves)

    get_next = __next__

    def get_next_as_optional(self) -> OptionalElement:
        """The next element, if there is one: ``optional.has_value()``, ``optional.get_value()``."""
        return OptionalElement.of_next(self)


class View:
    """What one replica takes of a distributed iterator."""

    def __init__(self, iterator: DistributedIterator, local_rank: int) -> None:
        self.iterator = iterator
        self.local_rank = local_rank
        self.number = 0

    def next_batch(self) -> Part:
        """This replica's part of the next element.

        Raises:
            StopIteration: there is none left.
        """
        part = self.peek(0)
        self.number += 1
        self.iterator.forget()
        return part

    def ready_s(self, now_s: float) -> float:
        """When the next element, wanted now, is there."""
        return self.iterator.ready_s(self.local_rank, self.number, now_s)

    def peek(self, i: int = 0) -> Part:
        """This replica's part of the next element but `i`."""
        return self.iterator.element(self.number + i)[self.local_rank]

    def next_is(self, signature: Any) -> bool:
        """Whether the next part has this signature, where that can be told at once."""
        known = self.number - self.iterator.first < len(self.iterator.parts)
        return known and self.peek(0).signature == signature
