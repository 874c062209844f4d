"""Steps that change what lies in one element of one source: batch and unbatch, enumerate.

Batches of rows stay rows, and unbatching gives the row numbers back.

Taught in lesson 08.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from simdist.arguments import whole_number
from simdist.data import streams
from simdist.data.batch import Batch, stack
from simdist.data.functions import each
from simdist.data.leaves import Array, ArraySpec, flatten, spec_of, structure_of, unflatten
from simdist.data.nodes import INFINITE, UNKNOWN, Node, Pass, Spec, Transform
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["BatchRows", "Enumerate", "Unbatch", "require_room"]

LARGEST_BATCH = 1 << 27  # elements that one element can be made of where the source has as many

NOT_BATCHED = "unbatch needs elements whose components share a first axis; expected a batched dataset; remove unbatch()"


class BatchRows(Transform):
    """Consecutive elements of shape [...] put together, b at a time: elements of shape [b, ...]."""

    def __init__(self, source: Node, batch_size: int, drop_remainder: bool) -> None:
        self.batch_size = whole_number(batch_size, "batch_size", 1)
        self.drop_remainder = bool(drop_remainder)
        super().__init__(source, f"batch({batch_size})")
        require_room(source, self.batch_size, self.label)

    @property
    def free(self) -> bool:
        return self.source.free

    def batched_table(self) -> Table | None:
        return self.source.table()

    @property
    def static_batch_size(self) -> int | None:
        return self.batch_size

    @property
    def full_batches(self) -> bool:
        return self.drop_remainder

    def over(self, sources: tuple[Node, ...]) -> Node:
        return BatchRows(sources[0], self.batch_size, self.drop_remainder)

    def open(self, one_pass: Pass) -> Pull:
        table = self.source.table()
        if table is not None:
            return streams.row_batches(self.source.open(one_pass), table, self.batch_size, self.drop_remainder, lambda: one_pass.stays)
        pull = self.source.open(one_pass)
        held: list[Batch] = []

        def pull_batch(limit: int) -> Array:
            items = one_pass.gathered(pull, self.batch_size, held)
            full = len(items) == self.batch_size
            return streams.as_objects([stack(items)] if full or (items and not self.drop_remainder) else [])

        return pull_batch

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if total < 0:
            return total
        return total // self.batch_size if self.drop_remainder else -(-total // self.batch_size)

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        size = self.batch_size if self.drop_remainder else None
        return structure, tuple(ArraySpec((size, *leaf.shape), leaf.dtype) for leaf in leaves)


class Unbatch(Transform):
    """The rows of each element of shape [b, ...], one by one: b elements of shape [...]."""

    def __init__(self, source: Node) -> None:
        super().__init__(source, "unbatch()")

    @property
    def free(self) -> bool:
        return self.source.free

    def table(self) -> Table | None:
        return self.source.batched_table()

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Unbatch(sources[0])

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open_elements(one_pass)
        if self.table() is not None:
            return streams.batch_rows(pull)
        rest: deque[Batch] = deque()

        def pull_rows(limit: int) -> Array:
            while not rest and len(chunk := pull(1)):
                rest.extend(rows_of(chunk[0]))
            return streams.as_objects([rest.popleft() for _ in range(min(limit, len(rest)))])

        return pull_rows

    def cardinality(self) -> int:
        total, size = self.source.cardinality(), self.source.static_batch_size
        if total > 0 and size is not None and self.source.full_batches:
            return total * size
        return total if total in (0, INFINITE) else UNKNOWN

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        if any(not leaf.shape for leaf in leaves):
            raise InvalidArgumentError(NOT_BATCHED)
        return structure, tuple(ArraySpec(leaf.shape[1:], leaf.dtype) for leaf in leaves)


def require_room(source: Node, count: int, label: str) -> None:
    """Refuse to put so many elements together that nobody would live to see the result, where the source has as many.

    Raises:
        InvalidArgumentError: a batch or window of a source that has no end, or a very late one, is too large.
    """
    total = source.cardinality() if count > LARGEST_BATCH else 0
    if total == INFINITE or total > LARGEST_BATCH:
        have = "has no end" if total == INFINITE else f"has {total:,} elements"
        raise InvalidArgumentError(
            f"{label} puts {count:,} elements together, and {source.describe()} {have}; expected at most {LARGEST_BATCH:,} elements; "
            "put repeat() behind it, or take(n) before it"
        )


def rows_of(batch: Batch) -> list[Batch]:
    """Each of the b rows of a concrete batch as an element."""
    if not batch.is_batched:
        raise InvalidArgumentError(NOT_BATCHED)
    leaves, structure = batch.leaves(), batch.structure
    return [Batch(None, None, tuple(np.asarray(leaf[row]) for leaf in leaves), structure) for row in range(batch.num_rows)]


class Enumerate(Transform):
    """Pairs (position, element), the positions being integers from `start`."""

    def __init__(self, source: Node, start: int) -> None:
        self.start = whole_number(start, "start", -(1 << 31))
        super().__init__(source, "enumerate()")

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Enumerate(sources[0], self.start)

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open_elements(one_pass)
        position = self.start

        def pull_counted(limit: int) -> Array:
            nonlocal position
            one_pass.stays = False
            try:
                return pull(limit)
            except Exception:
                position += not one_pass.stays  # an element that is passed over has a number, too, as in tf.data
                raise

        def numbered(batch: Batch) -> Batch:
            nonlocal position
            position += 1
            return self.element(position - 1, batch)

        return each(pull_counted, numbered)

    def element(self, position: int, batch: Batch) -> Batch:
        leaves, structure = batch.leaves(), batch.structure
        paired = structure_of((0, unflatten(structure, [0] * len(leaves))))
        return Batch(None, None, (flatten(position, "a position")[0][0], *leaves), paired)

    def cardinality(self) -> int:
        return self.source.cardinality()

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        paired = structure_of((0, unflatten(structure, [0] * len(leaves))))
        return paired, (spec_of(flatten(self.start, "a position")[0][0]), *leaves)
