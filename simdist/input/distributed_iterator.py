"""One pass over a distributed dataset, by all replicas that this program feeds: each takes its parts at its own time.

Invariant: an element is forgotten, and the position moves on, when the last replica has taken its part.

Taught in lesson 02.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NoReturn

import jax

from simdist.data.batch import Batch
from simdist.data.leaves import Element
from simdist.data.optional_element import OptionalElement, present_element
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError
from simdist.input.layout import ReplicaLayout
from simdist.input.prefetch import Pace, PrefetchBuffer
from simdist.input.replica_batch import ReplicaBatch, leaves_of_all, replica_batches
from simdist.input.replica_feed import ReplicaFeed
from simdist.input.steps import NOTHING
from simdist.input.view import InputView
from simdist.interrupts import whole_block
from simdist.program.arrays import Tree
from simdist.program.per_replica import PerReplica, ReplicaArgument
from simdist.program.step_iterator import BatchSignature, StepIterator, TimedIterator
from simdist.program.tracing import active_tracer
from simdist.uncopied import Uncopied

__all__ = ["DistributedIterator", "ReplicaIterator"]


class DistributedIterator(
    Uncopied,
    ReplicaArgument,
    ReplicaFeed,
    why="its streams would go on with both.",
    instead="Make another one with iter(dataset), and take it to the same place: other.load_state_dict(iterator.state_dict()).",
):
    """One pass over a distributed dataset. Made by ``iter(distributed_dataset)``.

    ``next`` waits until all workers have the next element, and gives it with a `PerReplica` for each array; a step under @sd.function takes
    the iterator itself as an argument, and each replica of it a `ReplicaIterator`.

    Args:
        strategy: whose replicas take the elements.
        given: the input, shared among the workers that there are now.
        share_again: gives it anew, where the workers have become fewer or more.
        buffer: elements that may lie ready for a replica, at least.

    Example:
        >>> import simdist as sd
        >>> iterator = iter(sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(4)))
        >>> next(iterator).values
        (array([0, 1], dtype=int32), array([2, 3], dtype=int32))
        >>> iterator.get_next_as_optional().has_value()
        False
    """

    def __init__(self, strategy: ReplicaLayout, given: InputView, share_again: Callable[[], InputView], buffer: int) -> None:
        self.strategy = strategy
        self._share_again = share_again
        self._buffer = buffer
        self._begin(given)

    def _begin(self, given: InputView) -> None:
        """Begin a pass with the replicas that there are now."""
        strategy = self.strategy
        self._replicas_at_first = self._replicas_now()
        self._given = given
        self._steps = iter(given)
        self._elements: deque[list[ReplicaBatch]] = deque()  # those that not all replicas have taken, part by part
        self._left: deque[int] = deque()  # how many replicas have not taken each of them
        self._first = 0  # the number of the element at the left end
        self._replicas = [ReplicaIterator(self, local_rank) for local_rank in range(len(strategy.ranks))]
        self._per_worker = max(1, strategy.num_replicas_in_sync // strategy.num_workers)
        self._start_pipelines()

    def _start_pipelines(self) -> None:
        """The pipelines work on the elements that come next, from now on."""
        engine = self.strategy.engine
        paces = [Pace() if engine is None else self._given.pace(worker) for worker in self._given.workers]
        began_s = 0.0 if engine is None else engine.now
        self._prefetched = [PrefetchBuffer(pace.seconds, max(pace.buffer, self._buffer), began_s) for pace in paces]

    def _replicas_now(self) -> tuple[int, tuple[int, ...]]:
        return self.strategy.num_replicas_in_sync, tuple(self.strategy.present_workers)

    @property
    def fits_replicas(self) -> bool:
        """Whether its elements are cut for the replicas that there are now."""
        return self._replicas_now() == self._replicas_at_first

    @property
    def can_go_back(self) -> bool:
        """Whether it can be taken back to an element that was taken."""
        return not self._given.reads_once

    # -- what replicas take -----------------------------------------------------------------------------------------

    def replica(self, local_rank: int) -> ReplicaIterator:
        """What one replica takes, counted from 0 among those that this program feeds."""
        return self._replicas[local_rank]

    def align(self) -> None:
        last = max(replica.number for replica in self._replicas)
        for replica in self._replicas:
            while replica.number < last:
                replica.next_batch()

    def rewind(self) -> None:
        for replica in self._replicas:
            replica.number = self._first
        self._left = deque([len(self._replicas)] * len(self._elements))

    def next_batch(self) -> NoReturn:
        """Refused: it marks this as the iterator of a step, whose replicas take their parts one by one.

        Raises:
            TypeError: always.
        """
        raise TypeError("A distributed iterator is taken replica by replica; pass it to a step, or use next(iterator).")

    def element(self, number: int) -> list[ReplicaBatch]:
        """The parts of an element, one for each of r replicas; it is made if nobody has seen it yet.

        Raises:
            StopIteration: there are not so many elements.
        """
        elements = self._elements
        while len(elements) <= number - self._first:
            with whole_block():  # what some workers have read already, and others not, nobody could put together again
                elements.append(replica_batches(self._steps.peek(len(elements))))
                self._left.append(len(self._replicas))
        return elements[number - self._first]

    def is_made(self, number: int) -> bool:
        """Whether an element is there already."""
        return number - self._first < len(self._elements)

    def taken(self, number: int) -> None:
        """One more replica has taken its part of an element; what all have taken is forgotten."""
        left = self._left
        left[number - self._first] -= 1
        while left and not left[0]:
            left.popleft()
            self._elements.popleft()
            self._steps.next_step()
            self._first += 1

    def ready_s(self, local_rank: int, number: int, now_s: float) -> float:
        """When the worker of a replica has an element that is wanted now."""
        prefetched = self._prefetched[local_rank // self._per_worker]
        if not prefetched.seconds:
            return now_s
        try:
            element = self.element(number)[local_rank].element
        except StopIteration:
            return now_s
        if element == NOTHING:
            return now_s
        return prefetched.ready_s(number if element is None else element, now_s, remembered=len(self._elements))

    # -- what fit asks ----------------------------------------------------------------------------------------------

    def has_next(self) -> bool:
        """Whether there is an element that the first replica has not taken."""
        try:
            self._replicas[0].peek()
        except StopIteration:
            return False
        return True

    def sample(self) -> Batch:
        """A part of the next element that has rows, to build a model with."""
        return max(self.element(self._replicas[0].number), key=lambda part: part.num_rows).batch

    # -- positions --------------------------------------------------------------------------------------------------

    def state_dict(self) -> Position:
        """The position, as plain numbers."""
        return self._steps.state_dict()

    def load_state_dict(self, state: Position) -> None:
        """Go to a saved position.

        Raises:
            InvalidArgumentError: it belongs to another dataset.
        """
        self._steps.load_state_dict(state)
        self._forget()

    def go_to(self, state: Position) -> None:
        """As `load_state_dict`, for an iterator beside others of the same dataset."""
        self._steps.go_to(state)
        self._forget()

    def _forget(self) -> None:
        self._elements.clear()
        self._left.clear()
        self._first = 0
        for replica in self._replicas:
            replica.number = 0
        self._start_pipelines()

    def restart(self, state: Position) -> None:
        """Go to a saved position, with the replicas that there are now."""
        self._begin(self._share_again())
        self._steps.load_state_dict(state)

    # -- elements for people ----------------------------------------------------------------------------------------

    @property
    def element_spec(self) -> Tree:
        """Shape and dtype of what one replica gets, as of its dataset."""
        return self._given.element_spec

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        tracer = active_tracer()
        if tracer is not None:
            raise InvalidArgumentError(
                "next(iterator) of a distributed dataset was called inside strategy.run. Take the element outside, and pass it on: "
                "strategy.run(fn, args=(next(iterator),))."
                if tracer.in_replica
                else "A step reached for an iterator that it was not given. Give it as an argument: step(iter(dataset))."
            )
        if not self.has_next():
            raise StopIteration
        self._wait()
        with whole_block():  # or one replica would be ahead of the others from now on
            parts = [replica.next_batch() for replica in self._replicas]
        if self.strategy.num_replicas_in_sync == 1:
            return parts[0].batch.value()
        leaves = [PerReplica(leaf, parts[0].global_rows) for leaf in leaves_of_all(parts)]
        return jax.tree_util.tree_unflatten(parts[0].structure, leaves)

    def _wait(self) -> None:
        """Wait until all workers have the next element."""
        engine = self.strategy.engine
        if engine is not None:
            now_s = engine.now
            ready_s = max(replica.ready_s(now_s) for replica in self._replicas)
            if ready_s > now_s:
                engine.wait_for_input(ready_s - now_s)

    def get_next(self) -> Element:
        """The next element.

        Raises:
            OutOfRangeError: there is none left.
        """
        return present_element(self)

    def get_next_as_optional(self) -> OptionalElement:
        """The next element, if there is one: ``optional.has_value()``, ``optional.get_value()``."""
        return OptionalElement.of_next(self)


class ReplicaIterator(StepIterator, TimedIterator):
    """What one replica takes of a distributed iterator.

    Args:
        iterator: from which all replicas take.
        local_rank: which of this program's replicas this one is, from 0.

    Attributes:
        number: of the element that it takes next.
    """

    def __init__(self, iterator: DistributedIterator, local_rank: int) -> None:
        self.iterator = iterator
        self.local_rank = local_rank
        self.number = 0

    def next_batch(self) -> ReplicaBatch:
        """This replica's part of the next element.

        Raises:
            StopIteration: there is none left.
        """
        part = self.iterator.element(self.number)[self.local_rank]
        self.number += 1
        self.iterator.taken(self.number - 1)
        return part

    def peek(self, i: int = 0) -> ReplicaBatch:
        """This replica's part of the next element but `i`.

        Raises:
            StopIteration: there are not so many left.
        """
        return self.iterator.element(self.number + i)[self.local_rank]

    def next_is(self, signature: BatchSignature) -> bool:
        """Whether the next part has this signature, where that is known at once."""
        return self.iterator.is_made(self.number) and self.peek().signature == signature

    def ready_s(self, now_s: float) -> float:
        """When the next element, wanted now, is there."""
        return self.iterator.ready_s(self.local_rank, self.number, now_s)
