"""Iterators and arguments as the code of a step sees them, while it is traced."""

from __future__ import annotations

from typing import Never

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree, is_array
from simdist.program.batch_rows import BatchRows
from simdist.program.bound_call import ReplicaLocalSpec
from simdist.program.per_replica import ReplicaLocal, spread
from simdist.program.tracing import Tracer

__all__ = ["TracedIterator", "given"]

LONGEST_LOOP = 1_000


class TracedIterator:
    """The stand-in for an iterator argument while a step is traced.

    Args:
        distributed: whether each replica takes a part of each element.
    """

    def __init__(self, tracer: Tracer, number: int, distributed: bool = False) -> None:
        self.tracer = tracer
        self.number = number
        self.distributed = distributed

    def __iter__(self) -> TracedIterator:
        self.tracer.looped.add(self.number)
        return self

    def __next__(self) -> Tree:
        if self.distributed and self.tracer.in_replica:
            raise InvalidArgumentError(
                "next(iterator) of a distributed dataset was called inside strategy.run. Take the element outside, and pass it on: "
                "strategy.run(fn, args=(next(iterator),))."
            )
        batch = self.tracer.next_batch(self.number)
        if self.number in self.tracer.looped and self.tracer.taken[self.number] > LONGEST_LOOP:
            raise InvalidArgumentError(
                f"A loop over an iterator takes more than {LONGEST_LOOP:,} batches in one step, which would all be written out in one "
                "program. Let the step take one batch, and loop outside of it; or let it take some: for _ in range(n): next(iterator)."
            )
        rows = self._rows()
        return spread(batch, rows) if self.distributed else batch

    def _rows(self) -> BatchRows:
        """The rows of the batch that was just taken."""
        rows, known = BatchRows(), self.tracer.part_rows.get((self.number, self.tracer.taken[self.number] - 1))
        if known is not None:
            self.tracer.global_rows.note(*known)
            rows.note(*known)
        return rows

    get_next = __next__

    def get_next_as_optional(self) -> Never:
        """Refused: a program is written for steps that have their batches."""
        raise InvalidArgumentError(
            "get_next_as_optional() was called in a step, whose program is the same whether there is an element or not. Ask outside: "
            "optional = iterator.get_next_as_optional(), and give optional.get_value() to the step; or let the step end the dataset, "
            "which raises OutOfRangeError."
        )


def given(tracer: Tracer, value: Tree, local_spec: ReplicaLocalSpec | None) -> Tree:
    """An argument in the form in which the step's code gets it."""
    if local_spec is None or tracer.num_replicas == 1:
        return value
    if local_spec.global_rows is not None and is_array(value) and value.ndim:
        tracer.global_rows.note(value.shape[0], local_spec.global_rows)
    tracer.is_rank_dependent = tracer.is_rank_dependent or not is_array(value)
    tracer.is_uneven = tracer.is_uneven or local_spec.is_uneven
    return ReplicaLocal(tracer, value, local_spec.global_rows)
