"""Which batches a step takes of its iterators: it is traced with them, and its program fits calls that have the same.

A loop over an iterator, ``for batch in iterator``, is written out when the step is traced: as many times as there are batches left, or
until the loop stops by itself, as at a ``break``. Where fewer batches are left than it took, the step is traced anew.

Invariant: a program that was traced to the end of an iterator runs only where exactly as many batches are left; of more it would leave
some without a word, and of fewer the loop would have been shorter.
"""

from __future__ import annotations

from simdist.program.bound_call import BoundCall
from simdist.program.operations import Program
from simdist.program.step_iterator import StepBatch, StepIterator

__all__ = ["TakenBatches", "fits", "fits_at_once"]


class TakenBatches:
    """What a trace takes of the iterators of a call: ``taken(iterator, position)`` is the batch at that position.

    Attributes:
        ended: the iterators of which the step has asked for more than there is.
    """

    def __init__(self, call: BoundCall) -> None:
        self._iterators = call.iterators
        self.ended: set[int] = set()

    def __call__(self, iterator: int, position: int) -> StepBatch:
        try:
            return self._iterators[iterator].peek(position)
        except StopIteration:
            self.ended.add(iterator)
            raise


def fits(program: Program, call: BoundCall) -> bool:
    """Whether the next batches of the call's iterators have the signatures that the program was traced with.

    A program that reads as one value what replicas have assigned differently meanwhile fits no call.

    Raises:
        StopIteration: an iterator that the step does not loop over has not enough elements left for one step.
    """
    if program.reads_differing_copies:
        return False
    taken: dict[int, int] = {}
    for iterator, signature in program.signatures:
        position = taken.get(iterator, 0)
        taken[iterator] = position + 1
        if iterator in program.ended | program.looped and _ends_at(call.iterators[iterator], position):
            return False  # the loop is shorter now
        if call.iterators[iterator].peek(position).signature != signature:
            return False
    return not program.ended or all(_ends_at(call.iterators[iterator], taken.get(iterator, 0)) for iterator in program.ended)


def fits_at_once(program: Program, call: BoundCall) -> bool:
    """Whether the program fits the next batches, if this is known without running code of a user's pipeline; else False."""
    signatures = program.signatures
    if program.ended or (program.common_reads and program.reads_differing_copies):
        return False
    if len(signatures) == 1:
        ((iterator, signature),) = signatures
        return call.iterators[iterator].next_is(signature)
    return not signatures


def _ends_at(iterator: StepIterator, position: int) -> bool:
    """Whether an iterator has no batch at that position."""
    try:
        iterator.peek(position)
    except StopIteration:
        return True
    return False
