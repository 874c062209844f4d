"""One pass over a distributed input: steps, those to come, and a position that can be saved.

Invariant: peeking changes the position no more than it does for a dataset's iterator.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from simdist.data.batch import Batch
from simdist.data.positions import Position

__all__ = ["NOTHING", "InputIterator", "InputStep"]

NOTHING = -1  # in the place of an element: a worker takes none


@dataclass(frozen=True, slots=True)
class InputStep:
    """What the replicas receive for one step.

    Args:
        parts: ``parts[w][r]`` for replica r of worker w, a batch of b rows that may be 0; a worker's own view has one worker only.
        sizes: ``sizes[w][r]``, the rows b of every replica of all workers; None where a worker's own view cannot know those of
            the others.
        elements: what tells the element of its pipeline that worker w takes parts of from those before it, NOTHING where there is none;
            default None: each step has one of its own.
    """

    parts: tuple[tuple[Batch, ...], ...]
    sizes: tuple[tuple[int, ...], ...] | None
    elements: tuple[int, ...] | None = None

    def element(self, worker: int) -> int | None:
        """What tells the element of a worker from others, counted among the workers of `parts`; None where each step has its own."""
        return None if self.elements is None else self.elements[worker]

    @property
    def num_rows(self) -> int | None:
        """Rows of the global batch, where they are known: what a loss is averaged over."""
        return None if self.sizes is None else sum(map(sum, self.sizes))


class InputIterator(ABC):
    """The steps of one pass, one after another.

    Made by ``iter(input)``. `next_step` (or ``next``) gives the parts of the next step, `peek` those of a later one. There are
    two kinds: `SharedBatches`, which cuts one source for all workers, and `WorkerPipelines`, which reads one for each.

    Args:
        on_restore: called with a position to which this iterator was moved.

    Example:
        >>> from simdist.data import Dataset
        >>> from simdist.input import DistributedInput
        >>> iterator = iter(DistributedInput(Dataset.range(6).batch(4), replicas_per_worker=2))
        >>> iterator.peek(1).sizes, iterator.next_step().sizes
        (((1, 1),), ((2, 2),))
        >>> [part.value().tolist() for part in next(iterator).parts[0]]
        [[4], [5]]
    """

    def __init__(self, on_restore: Callable[[Position], None] | None = None) -> None:
        self._on_restore = on_restore
        self._ahead: deque[tuple[Position, InputStep]] = deque()  # each with the position before it

    @abstractmethod
    def read_step(self) -> InputStep:
        """Read the step that nobody has seen yet.

        Raises:
            StopIteration: there is none left.
        """

    @abstractmethod
    def read_position(self) -> Position:
        """The position before the step that nobody has seen yet; ``sources`` holds that of each source."""

    @abstractmethod
    def move_to(self, position: Position, follows: bool) -> None:
        """Go to a position that `read_position` gave; whether later iterators of the same sources follow this one."""

    def __iter__(self) -> InputIterator:
        return self

    def __next__(self) -> InputStep:
        return self.next_step()

    def next_step(self) -> InputStep:
        """The parts of the next step.

        Raises:
            StopIteration: there is none left.
            InvalidArgumentError: the elements were never batched.
        """
        if self._ahead:
            return self._ahead.popleft()[1]
        return self.read_step()

    def peek(self, i: int = 0) -> InputStep:
        """The step that the next call but `i` of `next_step` will give; nothing is consumed.

        Raises:
            StopIteration: there are not so many left.
        """
        while len(self._ahead) <= i:
            before = self.read_position()
            self._ahead.append((before, self.read_step()))
        return self._ahead[i][1]

    def state_dict(self) -> Position:
        """The position, as plain numbers; a worker's own position is good for its own view, and under DATA for any.

        Example:
            >>> from simdist.data import Dataset
            >>> from simdist.input import DistributedInput
            >>> iterator = iter(DistributedInput(Dataset.range(6).batch(2), num_workers=2))
            >>> _ = next(iterator)
            >>> iterator.state_dict()
            {'sources': [{'consumed': 1, 'shuffles': []}]}
        """
        return self._ahead[0][0] if self._ahead else self.read_position()

    def load_state_dict(self, state: Position) -> None:
        """Go to a saved position of an equal input; later passes follow the restored one.

        Args:
            state: what `state_dict` returned, perhaps in another process.

        Raises:
            InvalidArgumentError: the state belongs to another input.
        """
        self._move(state, follows=True)
        if self._on_restore is not None:
            self._on_restore(state)

    def go_to(self, state: Position) -> None:
        """As `load_state_dict`, for an iterator beside others: later passes are as they would have been."""
        self._move(state, follows=False)

    def _move(self, state: Position, follows: bool) -> None:
        """Go to a position; to that of a step which was read already without reading it again: some sources can be read only once."""
        positions = [before for before, _ in self._ahead]
        if state in positions:
            for _ in range(positions.index(state)):
                self._ahead.popleft()
            self.move_to(self.read_position(), follows)
        else:
            self.move_to(state, follows)
            self._ahead.clear()
