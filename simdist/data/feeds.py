"""Where the parts of a step come from: one source that all workers cut up, or a source of its own for each worker.

A feed makes the steps of one pass for some of the workers: for all of them, or for one that runs in its own process.

- `SharedFeed` reads the global batches. Batch by batch, the rows are cut into one part for each replica of all workers;
  worker w gets parts w, w + W, w + 2W, ... of W workers.
- `OwnFeed` reads something for each worker (own_sources.py): a dataset whose batches are cut, or one that nobody cuts.

Invariants: a feed of one worker gives exactly the parts that a feed of all workers gives to it, until it has no rows
left; then a feed of all gives it empty parts, until all have ended. A step without a row for anybody is left out.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from simdist.caches import bounded
from simdist.data.batch import Batch
from simdist.data.iterator import DatasetIterator
from simdist.data.own_sources import OwnSource
from simdist.data.rebatch import replica_batch_sizes
from simdist.errors import InvalidArgumentError

__all__ = ["Feed", "InputStep", "OwnFeed", "SharedFeed"]


@dataclass(frozen=True, slots=True)
class InputStep:
    """What the replicas receive for one step.

    Args:
        parts: ``parts[worker][replica]``; a worker's own view has one worker only. A part may have no rows.
        sizes: ``sizes[worker][replica]``, the rows of every replica of all workers; None where a worker's own view
            cannot know those of the others.
    """

    parts: tuple[tuple[Batch, ...], ...]
    sizes: tuple[tuple[int, ...], ...] | None

    @property
    def num_rows(self) -> int | None:
        """Rows of the global batch, where they are known: what a loss is averaged over."""
        return None if self.sizes is None else sum(map(sum, self.sizes))


class Feed(ABC):
    """The steps of one pass."""

    @abstractmethod
    def next_step(self) -> InputStep:
        """The next step.

        Raises:
            StopIteration: there is none left.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The position, as plain numbers; ``sources`` holds that of each source."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go to a position that `state` told."""


class SharedFeed(Feed):
    """Global batches, cut into one part for each replica of all workers.

    Args:
        batches: the global batches.
        num_workers: workers of the cluster.
        replicas_per_worker: replicas of each.
        workers: those whose parts are wanted.
        even: False cuts parts of the rounded-up size until the rows run out.
    """

    def __init__(self, batches: DatasetIterator, num_workers: int, replicas_per_worker: int, workers: range, *, even: bool = True) -> None:
        self.batches = batches
        self.num_workers, self.num_replicas, self.workers = num_workers, num_workers * replicas_per_worker, workers
        self.even = even

    def next_step(self) -> InputStep:
        batch = self.batches.next_batch().require_batched()
        while not batch.num_rows:
            batch = self.batches.next_batch().require_batched()
        bounds, sizes = cuts(batch.num_rows, self.num_workers, self.num_replicas, self.even)
        return InputStep(tuple([tuple([batch.part(*bound) for bound in bounds[worker]]) for worker in self.workers]), sizes)

    def state(self) -> dict[str, Any]:
        return {"sources": [self.batches.state_dict()]}

    def restore(self, state: dict[str, Any]) -> None:
        self.batches.load_state_dict(sources_in(state, 1)[0])


@bounded("cuts of batches", size=64)
def cuts(num_rows: int, num_workers: int, num_replicas: int, even: bool) -> tuple[list[list[tuple[int, int]]], tuple[tuple[int, ...], ...]]:
    """First and last row of each part, and its size, by worker and replica; kept, since most batches are of one size."""
    sizes = replica_batch_sizes(num_rows, num_replicas, static=even)
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    own = [slice(worker, None, num_workers) for worker in range(num_workers)]
    return [bounds[places] for places in own], tuple([sizes[places] for places in own])


class OwnFeed(Feed):
    """A source for each worker; the steps end when all sources have ended.

    Args:
        sources: one for each worker that is looked at.
        complete: True if these are all workers, so that the sizes of the whole step are known.
        full_steps: True if a step that lacks a part is left out, because all parts have one fixed size.
    """

    def __init__(self, sources: Sequence[OwnSource], *, complete: bool, full_steps: bool) -> None:
        self.sources, self.complete, self.full_steps = sources, complete, full_steps
        self.step = 0

    def next_step(self) -> InputStep:
        while True:
            found = [source.parts(self.step) for source in self.sources]
            some = next((part for own in found for part in own if part is not None), None)
            lacking = any(part is None for own in found for part in own)
            if some is None or (lacking and (self.full_steps or not some.is_batched)):
                raise StopIteration
            for source in self.sources:
                source.consume()
            self.step += 1
            parts = tuple([tuple([some.part(0, 0) if part is None else part for part in own]) for own in found])
            sizes = tuple([tuple([part.num_rows for part in own]) for own in parts])
            if not self.complete or any(map(any, sizes)):
                return InputStep(parts, sizes if self.complete else None)

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "sources": [source.state() for source in self.sources]}

    def restore(self, state: dict[str, Any]) -> None:
        positions = sources_in(state, len(self.sources))
        try:
            self.step = int(state["step"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"not a saved position of this input: {state!r}; expected what state_dict() returned") from error
        for source, position in zip(self.sources, positions, strict=True):
            source.restore(position)


def sources_in(state: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The positions of the sources in a saved state, checked."""
    positions: Any = state.get("sources")
    if not isinstance(positions, list) or len(positions) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise InvalidArgumentError(
            f"not a saved position of this input, which has {count} source(s): {state!r}; "
            "expected what state_dict() returned for the same number of workers, and the same policy"
        )
    return positions  # pyright: ignore[reportUnknownVariableType]
