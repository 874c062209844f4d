"""One pass over a distributed input: global steps, a look at those to come, and a position that can be saved.

Invariant: peeking changes the position no more than it does for a dataset's iterator.

Taught in lesson 08.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from simdist.data.feeds import Feed, InputStep

__all__ = ["InputIterator"]


class InputIterator:
    """The steps of one pass, one after another.

    Made by ``iter(input)``. `next_step` (or ``next``) gives the parts of the next step, `peek` those of a later one.

    Args:
        feed: makes the steps.
        on_restore: told a position to which this iterator was moved.

    Example:
        >>> from simdist.data import Dataset, DistributedInput
        >>> iterator = iter(DistributedInput(Dataset.range(6).batch(4), replicas_per_worker=2))
        >>> iterator.peek(1).sizes, iterator.next_step().sizes
        (((1, 1),), ((2, 2),))
        >>> [part.value().tolist() for part in next(iterator).parts[0]]
        [[4], [5]]
    """

    def __init__(self, feed: Feed, on_restore: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._feed = feed
        self._on_restore = on_restore
        self._ahead: deque[tuple[dict[str, Any], InputStep]] = deque()  # each with the position before it

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
        return self._feed.next_step()

    def peek(self, i: int = 0) -> InputStep:
        """The step that the next call but `i` of `next_step` will give; nothing is consumed.

        Raises:
            StopIteration: there are not so many left.
        """
        while len(self._ahead) <= i:
            before = self._feed.state()
            self._ahead.append((before, self._feed.next_step()))
        return self._ahead[i][1]

    def state_dict(self) -> dict[str, Any]:
        """The position, as plain numbers; a worker's own position is good for its own view, and under DATA for any.

        Example:
            >>> from simdist.data import Dataset, DistributedInput
            >>> iterator = iter(DistributedInput(Dataset.range(6).batch(2), num_workers=2))
            >>> _ = next(iterator)
            >>> iterator.state_dict()
            {'sources': [{'consumed': 1, 'shuffles': []}]}
        """
        return self._ahead[0][0] if self._ahead else self._feed.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a saved position of an equal input; later passes follow the restored one.

        Args:
            state: what `state_dict` returned, perhaps in another process.

        Raises:
            InvalidArgumentError: the state belongs to another input.
        """
        self._feed.restore(state)
        self._ahead.clear()
        if self._on_restore is not None:
            self._on_restore(state)
