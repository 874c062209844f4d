"""Steps of sources that each worker reads for itself: a pipeline for all its replicas in turn, or one for each of them.

Elements reach their replica as they are; where a worker reads global batches, `Rebatched` has cut them before.

Invariants: a worker's own view gives exactly the parts that the view of all workers gives to it, until it has no rows
left; then the view of all gives it empty parts, until all have ended. A step without a row for any replica is left out, and nothing
else, unless all elements have one shape, and there is one worker, or elements cannot be without rows.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from simdist.data.batch import Batch
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError
from simdist.input.positions import sources_in
from simdist.input.rebatch import Rebatched
from simdist.input.steps import NOTHING, InputIterator, InputStep

__all__ = ["WorkerPipelines"]


class BatchIterator(Protocol):
    """Batches of a dataset, as they come or rebatched."""

    def next_batch(self) -> Batch: ...
    def peek(self, i: int = 0) -> Batch: ...
    def state_dict(self) -> Position: ...
    def load_state_dict(self, state: Position) -> None: ...
    def go_to(self, state: Position) -> None: ...


class WorkerPipelines(InputIterator):
    """The next element of its pipeline for each replica; the steps end when all pipelines have ended.

    Args:
        pipelines: ``pipelines[w]`` of each worker whose parts are wanted: one, whose elements its replicas get in turn, or one for
            each replica.
        replicas_per_worker: replicas of each worker.
        complete: True if these are all workers, so that the sizes of the whole step are known.
        num_workers: of the cluster; default those of `pipelines`. A position is good for as many only, as each reads data of its own.
        away: the pipelines of workers that do not read, because they are away, by worker; a position holds where they wait.
        full_steps: says whether a step of one worker that lacks a part is left out, because all parts have one fixed size; asked when a
            step does. Several workers need not have as many rows, and those of one are not lost because another has ended.
        fixed_shapes: the same of elements that are no batches.
        on_restore: called with a position to which this iterator was moved.
    """

    def __init__(
        self,
        pipelines: Sequence[Sequence[BatchIterator]],
        replicas_per_worker: int,
        *,
        complete: bool,
        full_steps: Callable[[], bool],
        fixed_shapes: Callable[[], bool] = lambda: True,
        num_workers: int | None = None,
        away: Mapping[int, Sequence[BatchIterator]] | None = None,
        on_restore: Callable[[Position], None] | None = None,
    ) -> None:
        super().__init__(on_restore)
        self.num_workers = len(pipelines) if num_workers is None else num_workers
        self.pipelines, self.complete, self.full_steps, self.fixed_shapes = pipelines, complete, full_steps, fixed_shapes
        self.away = away or {}
        self._steps = 0  # that were read
        # Which of its worker's pipelines a replica reads, and how many of the step's elements of that go to replicas before it.
        self.turns = [[(r % len(of_worker), r // len(of_worker)) for r in range(replicas_per_worker)] for of_worker in pipelines]

    def read_step(self) -> InputStep:
        while True:
            found = [
                [peeked(of_worker[which], i) for which, i in turns] for of_worker, turns in zip(self.pipelines, self.turns, strict=True)
            ]
            some = next((part for of_worker in found for part in of_worker if part is not None), None)
            lacking = any(part is None for of_worker in found for part in of_worker)
            if some is None or (lacking and self._is_left_out(some)):
                raise StopIteration
            elements = tuple([self._element(*pair) for pair in zip(self.pipelines, found, strict=True)])
            self._take(found)
            self._steps += 1
            parts = tuple([tuple([some.part(0, 0) if part is None else part for part in of_worker]) for of_worker in found])
            sizes = tuple([tuple([part.num_rows for part in of_worker]) for of_worker in parts])
            if not self.complete or any(map(any, sizes)):
                return InputStep(parts, sizes if self.complete else None, elements)

    def _element(self, of_worker: Sequence[BatchIterator], found: list[Batch | None]) -> int:
        """What tells the element that a worker takes parts of from others; NOTHING where its data have ended."""
        first = next((number for number, part in enumerate(found) if part is not None), None)
        if first is None:
            return NOTHING
        pipeline = of_worker[first % len(of_worker)]
        return pipeline.element() if isinstance(pipeline, Rebatched) else self._steps  # what comes whole is of one step

    def _is_left_out(self, some: Batch) -> bool:
        """Whether a step is left out that has this part, and lacks another: there can be none without rows.

        Raises:
            InvalidArgumentError: nobody can tell.
        """
        if self.num_workers == 1 and self.full_steps():
            return True
        if some.is_batched or some.has_rows is not None:
            return False
        if not any(leaf.ndim for leaf in some.leaves()) or self.fixed_shapes():
            return True
        raise InvalidArgumentError(
            f"the data end with an element, {some!r}, for some replicas only, and the others cannot get one without rows: its components "
            "have different first axes, and the dataset does not say which of them are rows; make batches with .batch(n), "
            "give all components a first axis of the same length, or take(n) a multiple of the number of replicas"
        )

    def _take(self, found: list[list[Batch | None]]) -> None:
        """Go on behind the elements that were found."""
        for of_worker, turns, parts in zip(self.pipelines, self.turns, found, strict=True):
            for (which, _), part in zip(turns, parts, strict=True):
                if part is not None:
                    of_worker[which].next_batch()

    def read_position(self) -> Position:
        sources = [pipeline.state_dict() for pipeline in self._of_all_workers()]
        return {"sources": sources, "num_workers": self.num_workers}

    def move_to(self, position: Position, follows: bool) -> None:
        saved: object = position.get("num_workers", self.num_workers)
        if saved != self.num_workers:
            raise InvalidArgumentError(
                f"the saved position is that of an input of {saved} workers, each of which reads data of its own, and this one has "
                f"{self.num_workers}; expected as many. Under AutoShardPolicy.DATA a position is good for any number"
            )
        every = self._of_all_workers()
        for pipeline, source in zip(every, sources_in(position, len(every)), strict=True):
            (pipeline.load_state_dict if follows else pipeline.go_to)(source)

    def _of_all_workers(self) -> list[BatchIterator]:
        """The pipelines of those that read and of those that are away, in the order of the workers."""
        reading = iter(self.pipelines)
        numbers = range(len(self.pipelines) + len(self.away))
        return [pipeline for number in numbers for pipeline in (self.away[number] if number in self.away else next(reading))]


def peeked(pipeline: BatchIterator, i: int) -> Batch | None:
    """The next element of a pipeline but `i`; None where there are not so many left."""
    try:
        return pipeline.peek(i)
    except StopIteration:
        return None
