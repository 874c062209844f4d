"""What every input says of itself: its workers, the steps of a pass, the view of one worker, and what one replica gets.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from simdist.arguments import whole_number
from simdist.data.leaves import Tree
from simdist.data.nodes import UNKNOWN
from simdist.errors import InvalidArgumentError
from simdist.input.prefetch import Pace
from simdist.input.steps import InputIterator, InputStep

__all__ = ["InputView"]

State = TypeVar("State")


class InputView(ABC):
    """The steps of an input as some workers see them; each ``iter`` is a pass of its own. It is what `DistributedInput`, of one
    dataset, and `FunctionInput`, of a function that makes datasets, have in common.

    Args:
        num_workers: workers of the cluster.
        replicas_per_worker: replicas of each.
        workers: the workers whose parts are wanted; None is all of them.

    Attributes:
        is_whole: whether its steps are those of all replicas that there are, so that their sizes are known.
    """

    def __init__(self, num_workers: int, replicas_per_worker: int, workers: Sequence[int] | None = None) -> None:
        self.num_workers = whole_number(num_workers, "num_workers", 1)
        self.replicas_per_worker = whole_number(replicas_per_worker, "replicas_per_worker", 1)
        self.workers = range(self.num_workers) if workers is None else workers
        self.is_whole = len(self.workers) == self.num_workers

    @property
    def num_replicas(self) -> int:
        """Replicas of all workers."""
        return self.num_workers * self.replicas_per_worker

    @property
    def away(self) -> list[int]:
        """The workers that do not read because they are away."""
        return [worker for worker in range(self.num_workers) if worker not in self.workers] if self.is_whole else []

    @abstractmethod
    def __iter__(self) -> InputIterator:
        """The steps of a new pass."""

    @abstractmethod
    def worker_pipeline(self, index: int) -> InputView:
        """The parts of one worker only, counted from 0, as its own process sees them."""

    def without_others(self, present: Sequence[int]) -> None:
        """Let only these workers read, because the others are away: steps are whole without them, and what they read waits for them."""
        self.workers = present

    @property
    @abstractmethod
    def element_spec(self) -> Tree:
        """Shape and dtype of what one replica gets, as `ArraySpec`."""

    def cardinality(self) -> int:
        """Number of steps; -1 without an end, -2 where only running can tell."""
        return UNKNOWN

    @property
    def reads_once(self) -> bool:
        """Whether it cannot begin again, because it reads an iterator that nothing keeps."""
        return False

    def pace(self, worker: int) -> Pace:
        """How fast the pipeline of a worker is, counted from 0; it costs nothing where nothing was said."""
        return Pace()

    def reduce(self, initial_state: State, reduce_func: Callable[[State, InputStep], State]) -> State:
        """One value of all steps: ``reduce_func(state, step)``, step after step.

        Example:
            >>> from simdist.data import Dataset
            >>> from simdist.input import DistributedInput
            >>> DistributedInput(Dataset.range(10).batch(4), 2).reduce(0, lambda rows, step: rows + step.num_rows)
            10
        """
        state = initial_state
        for step in self:
            state = reduce_func(state, step)
        return state

    def only(self, index: int) -> range:
        """The one worker `index`, checked."""
        if whole_number(index, "index", 0) >= self.num_workers:
            raise InvalidArgumentError(f"worker index is {index} of {self.num_workers}; expected 0 to {self.num_workers - 1}")
        return range(index, index + 1)
