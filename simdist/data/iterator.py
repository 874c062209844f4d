"""One pass over a dataset: elements for people, batches for the engine, and a position that can be saved.

The position is three facts: how many elements were handed out, in which iteration each shuffle began, and with which seed. Everything
else follows from them, because nothing in a pipeline is random except through (seed, iteration); restoring runs the
row numbers forward again and computes no values.

Invariants: reading ahead and peeking change neither the position nor, for functions with side effects, what is called. Ctrl-C comes
between two elements; where it is raised in the middle of one, the streams have lost their place, and the iterator says so.

Taught in lesson 08.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from simdist.data.batch import Batch
from simdist.data.caching import cached_shuffles_of, reads_once, shuffles_of
from simdist.data.leaves import Element
from simdist.data.nodes import Node, Pass
from simdist.data.optional_element import OptionalElement, present_element
from simdist.data.positions import Position, consumed_and_bases, failed_in, seeds_in
from simdist.data.reorder import Shuffle
from simdist.data.streams import MAX_CHUNK, Pull
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.interrupts import whole_block
from simdist.program.restored_together import furthest
from simdist.program.step_iterator import BatchSignature, StepIterator
from simdist.uncopied import Uncopied

__all__ = ["DatasetIterator"]

READ_AHEAD = 32  # elements made at once where nobody can notice


class DatasetIterator(
    Uncopied,
    StepIterator,
    why="its streams would go on with both.",
    instead="Make another one with iter(dataset), and take it to the same place: other.load_state_dict(iterator.state_dict()).",
):
    """The elements of a dataset, one after another.

    Made by ``iter(dataset)``. ``next`` gives nested numpy arrays; the engine uses `next_batch` and `peek`.

    Args:
        node: the last step of the pipeline.
        bases: the iteration in which each shuffle begins; None is the next one that nobody had yet.

    Example:
        >>> from simdist.data import Dataset
        >>> iterator = iter(Dataset.range(6).batch(4))
        >>> iterator.peek(1).num_rows, iterator.next_batch().num_rows
        (2, 4)
        >>> next(iterator)
        array([4, 5], dtype=int32)
    """

    def __init__(self, node: Node, bases: Sequence[int] | None = None) -> None:
        self._node = node
        self._shuffles, self._cached = shuffles_of(node), cached_shuffles_of(node)
        self._seeds = {shuffle: shuffle.seed for shuffle in (*self._shuffles, *self._cached)}
        self._bases = [shuffle.iterations for shuffle in self._shuffles] if bases is None else list(bases)
        for shuffle, base in zip(self._shuffles, self._bases, strict=True):
            shuffle.iterations = max(shuffle.iterations, base + 1)
        self._pass = Pass()
        self._pull: Pull | None = None
        self._step = 1
        self._queue: deque[tuple[int, Batch]] = deque()  # with their numbers in the pass
        self._pulled = 0  # elements of the pass that are in the queue, or were
        self._failed: list[int] = []  # the numbers of those that a step could not make
        self._missing: list[int] = []  # the numbers of those that were looked at ahead, and left the queue because they raised
        self._is_torn = False  # whether Ctrl-C has ended the making of an element: the streams are somewhere in the middle of it

    def __iter__(self) -> DatasetIterator:
        return self

    def __next__(self) -> Element:
        batch = self._first()
        try:
            element = batch.value()
        except Exception:
            self._queue.popleft()
            raise
        self._queue.popleft()
        return element

    def get_next(self) -> Element:
        """The next element.

        Raises:
            OutOfRangeError: there is none left.
        """
        return present_element(self)

    def get_next_as_optional(self) -> OptionalElement:
        """The next element, if there is one: ``optional.has_value()``, ``optional.get_value()``."""
        return OptionalElement.of_next(self)

    def next_batch(self) -> Batch:
        """The next element, as rows or as arrays. One that raises is passed over, as in tf.data: the next call goes on behind it.

        Raises:
            StopIteration: there is none left.
        """
        batch = self._first()
        self._queue.popleft()
        return batch

    def _first(self) -> Batch:
        """The next element, which stays in the queue; one that raises leaves it."""
        queue = self._queue
        if not queue:
            self._fill()
        _, batch = queue[0]
        if batch.table is not None and batch.table.unvisited and batch.rows is not None:
            try:
                batch.table.compute(batch.rows)
            except Exception:
                queue.popleft()
                raise
        return batch

    def next_is(self, signature: BatchSignature) -> bool:
        """Whether the next element is there already, and has this signature; runs no code of the pipeline."""
        if not self._queue:
            return False
        found = self._queue[0][1].signature
        return found is signature or found == signature

    def peek(self, i: int = 0) -> Batch:
        """The element that the next call but `i` of `next_batch` will give; nothing is consumed, but one that raises is passed over.

        Raises:
            StopIteration: there are not so many left.
        """
        while len(self._queue) <= i:
            self._fill()
        number, batch = self._queue[i]
        if batch.table is not None and batch.rows is not None:
            try:
                batch.table.compute(batch.rows)
            except Exception:
                del self._queue[i]
                self._missing.append(number)
                raise
        return batch

    def state_dict(self) -> Position:
        """The position, as plain numbers: elements consumed, the iteration in which each shuffle began, and its seed; the seeds of shuffles
        before a cache; and the numbers of elements that a step could not make, where there were some, which count as consumed.

        Example:
            >>> from simdist.data import Dataset
            >>> iterator = iter(Dataset.range(5).shuffle(5, seed=1))
            >>> _ = next(iterator)
            >>> iterator.state_dict()
            {'consumed': 1, 'shuffles': [0], 'seeds': [1]}
        """
        position: Position = {"consumed": self._consumed, "shuffles": list(self._bases)}
        if failed := [number for number in self._failed if number < self._consumed]:
            position["failed"] = failed
        for kind, shuffles in (("seeds", self._shuffles), ("cached_seeds", self._cached)):
            if shuffles:
                position[kind] = [self._seeds[shuffle] for shuffle in shuffles]
        return position

    def load_state_dict(self, state: Position) -> None:
        """Go to a saved position of an equal dataset; later iterators of this dataset follow the restored one; of several in one
        checkpoint, the one that is furthest.

        Args:
            state: what `state_dict` returned, perhaps in another process.

        Raises:
            InvalidArgumentError: the state belongs to another dataset.
        """
        _, bases = consumed_and_bases(state, len(self._shuffles))
        self.go_to(state)
        for shuffle, base in zip(self._shuffles, bases, strict=True):
            (shuffle.iterations,) = furthest(shuffle, [base + 1])

    def go_to(self, state: Position) -> None:
        """As `load_state_dict`, for an iterator beside others: later iterators of this dataset are as they would have been.

        Raises:
            InvalidArgumentError: the state belongs to another dataset.
        """
        consumed, bases = consumed_and_bases(state, len(self._shuffles))
        seeds = {**self._saved_seeds(state, "seeds", self._shuffles), **self._saved_seeds(state, "cached_seeds", self._cached)}
        failed = failed_in(state)
        is_ahead = self._pull is not None and not self._is_torn and bases == self._bases and seeds == self._seeds
        if not is_ahead or self._consumed > consumed or any(number >= consumed for number in (*self._failed, *self._missing)):
            self._bases, self._seeds = bases, seeds
            for shuffle, seed in seeds.items():
                shuffle.seed = seed  # of iterators that are made from now on
            self._open()
        with whole_block():
            try:
                self._skip(consumed, failed)  # which an iterable that has only one pass can do, too
            except Exception:
                raise
            except BaseException:
                self._is_torn = True
                raise
            self._failed = failed

    @property
    def can_go_back(self) -> bool:
        """Whether it can be taken back to an element that was taken: a generator cannot begin again."""
        return not reads_once(self._node)

    def _saved_seeds(self, state: Position, kind: str, shuffles: Sequence[Shuffle]) -> dict[Shuffle, int]:
        seeds = seeds_in(state, [self._seeds[shuffle] for shuffle in shuffles], [shuffle.draws_seed for shuffle in shuffles], kind)
        return dict(zip(shuffles, seeds, strict=True))

    @property
    def _consumed(self) -> int:
        return self._queue[0][0] if self._queue else self._pulled

    def _open(self) -> Pull:
        self._pass = Pass(dict(zip(self._shuffles, self._bases, strict=True)), {**self._seeds})
        self._queue.clear()
        self._pulled, self._failed, self._missing, self._is_torn = 0, [], [], False
        self._pull = self._node.open_elements(self._pass)
        self._step = READ_AHEAD if self._node.free else 1
        return self._pull

    def _fill(self) -> None:
        """Put at least one more element into the queue.

        Raises:
            FailedPreconditionError: the streams have lost their place.
        """
        if self._is_torn:
            raise FailedPreconditionError(
                f"This iterator was interrupted while it made element {self._pulled}, and its streams have lost their place. Make a new "
                "one with iter(dataset), or go back to where it was: iterator.load_state_dict(iterator.state_dict())."
            )
        pull = self._pull or self._open()
        with whole_block():
            self._pass.stays = False
            try:
                chunk = pull(self._step)
            except Exception:
                if not self._pass.stays:
                    self._failed.append(self._pulled)
                    self._pulled += 1
                raise
            except BaseException:
                self._is_torn = True
                raise
            self._queue.extend(enumerate(chunk, self._pulled))
            self._pulled += len(chunk)
        if not len(chunk):
            raise StopIteration

    def _skip(self, count: int, failed: Sequence[int]) -> None:
        """Pass over elements without looking at them, until `count` of this pass are consumed, of which some could not be made."""
        pull = self._pull or self._open()
        while self._queue and self._queue[0][0] < count:
            self._queue.popleft()
        ends = [number for number in failed if self._pulled <= number < count]
        for end in (*ends, count):
            while self._pulled < end:
                self._pulled += self._passed_over(pull, min(end - self._pulled, MAX_CHUNK), count)
            if end < count:
                with suppress(Exception):  # as it was; one that can be made now is passed over all the same
                    self._passed_over(pull, 1, count)
                self._pulled += 1

    def _passed_over(self, pull: Pull, limit: int, count: int) -> int:
        chunk = pull(limit)
        if not len(chunk):
            raise InvalidArgumentError(
                f"the saved position is after {count} elements, but this dataset has only {self._pulled}; "
                "expected the dataset that the position was saved from"
            )
        return len(chunk)
