"""Steps that change how many elements lie in one: batch and unbatch, zip and enumerate.

Batches of rows stay rows, and unbatching gives the row numbers back. A zip of short, fixed orders is one table of its
own; every other combination is made element by element.

Taught in lesson 01.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from simdist.data import streams
from simdist.data.arguments import whole_number
from simdist.data.batch import Batch, stack
from simdist.data.leaves import Array, ArraySpec, Structure, flatten, spec_of, structure_of, unflatten
from simdist.data.nodes import INFINITE, LARGEST_CYCLE, UNKNOWN, Node, Run, Spec
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["BatchRows", "Enumerate", "Unbatch", "Zip"]

NOT_BATCHED = "unbatch needs elements whose components share a first axis; expected a batched dataset; remove unbatch()"


class BatchRows(Node):
    """Consecutive elements put together, with a new first axis."""

    def __init__(self, source: Node, batch_size: int, drop_remainder: bool) -> None:
        self.batch_size = whole_number(batch_size, "batch_size", 1)
        self.drop_remainder = bool(drop_remainder)
        self.source = source
        self.sources = (source,)
        self.label = f"batch({batch_size})"

    @property
    def free(self) -> bool:
        return self.source.free

    def batched_table(self) -> Table | None:
        return self.source.table()

    @property
    def static_batch_size(self) -> int | None:
        return self.batch_size

    def open(self, run: Run) -> Pull:
        table = self.source.table()
        if table is not None:
            return streams.row_batches(self.source.open(run), table, self.batch_size, self.drop_remainder)
        pull = self.source.open(run)

        def pull_batch(limit: int) -> Array:
            items = list(streams.filled(pull, self.batch_size))
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


class Unbatch(Node):
    """The rows of each element, one by one."""

    def __init__(self, source: Node) -> None:
        self.source = source
        self.sources = (source,)
        self.label = "unbatch()"

    @property
    def free(self) -> bool:
        return self.source.free

    def table(self) -> Table | None:
        return self.source.batched_table()

    def open(self, run: Run) -> Pull:
        pull = self.source.open_elements(run)
        if self.table() is not None:
            return streams.batch_rows(pull)
        rest: deque[Batch] = deque()

        def pull_rows(limit: int) -> Array:
            while not rest and len(chunk := pull(1)):
                rest.extend(rows_of(chunk[0]))
            return streams.as_objects([rest.popleft() for _ in range(min(limit, len(rest)))])

        return pull_rows

    def cardinality(self) -> int:
        total = self.source.cardinality()
        return total if total in (0, INFINITE) else UNKNOWN

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        if any(not leaf.shape for leaf in leaves):
            raise InvalidArgumentError(NOT_BATCHED)
        return structure, tuple(ArraySpec(leaf.shape[1:], leaf.dtype) for leaf in leaves)


def rows_of(batch: Batch) -> list[Batch]:
    """Each row of a concrete batch as an element."""
    if not batch.is_batched:
        raise InvalidArgumentError(NOT_BATCHED)
    leaves, structure = batch.leaves(), batch.structure
    return [Batch(None, None, tuple(np.asarray(leaf[row]) for leaf in leaves), structure) for row in range(batch.num_rows)]


class Zip(Node):
    """One element of each source, side by side, until the shortest source ends."""

    def __init__(self, sources: tuple[Node, ...], outer: Structure) -> None:
        self.sources = sources
        self.outer = outer
        self.label = "Dataset.zip(...)"
        self.found: Table | None = None
        self.decided = False
        self.composed: Structure | None = None

    def table(self) -> Table | None:
        if not self.decided:
            self.found = self.joined() if all(map(is_short, self.sources)) else None
            self.decided = True
        return self.found

    def joined(self) -> Table:
        """One table of the rows that meet, where all sources have fixed, short orders."""
        orders = [streams.drained(source.open(Run())) for source in self.sources]
        length = min(map(len, orders))
        tables = [source.table() for source in self.sources]
        leaves = [leaf for order, t in zip(orders, tables, strict=True) if t for leaf in t.take(order[:length])]
        return Table.from_leaves(leaves, self.compose([t.structure for t in tables if t]))

    @property
    def free(self) -> bool:
        return self.table() is not None

    @property
    def fixed(self) -> bool:
        return self.table() is not None

    def compose(self, inner: list[Structure]) -> Structure:
        """The structure of the pair (or dict, ...) of elements."""
        blanks = [unflatten(structure, [0] * structure.num_leaves) for structure in inner]
        return structure_of(unflatten(self.outer, blanks))

    def open(self, run: Run) -> Pull:
        table = self.table()
        if table is not None:
            return streams.from_rows(np.arange(table.num_rows, dtype=np.int32))
        pulls = [source.open_elements(run) for source in self.sources]

        def pull(limit: int) -> Array:
            chunks = [pull_one(1) for pull_one in pulls]
            return streams.as_objects([self.element([c[0] for c in chunks])] if all(map(len, chunks)) else [])

        return pull

    def element(self, parts: list[Batch]) -> Batch:
        if self.composed is None:
            self.composed = self.compose([part.structure for part in parts])
        return Batch(None, None, tuple(leaf for part in parts for leaf in part.leaves()), self.composed)

    def cardinality(self) -> int:
        totals = [source.cardinality() for source in self.sources]
        if 0 in totals or UNKNOWN in totals:
            return 0 if 0 in totals else UNKNOWN
        return min((total for total in totals if total != INFINITE), default=INFINITE)

    def spec(self) -> Spec:
        specs = [source.spec() for source in self.sources]
        return self.compose([structure for structure, _ in specs]), tuple(leaf for _, part in specs for leaf in part)


def is_short(node: Node) -> bool:
    """True for a fixed order of few rows of plain columns."""
    table = node.table() if node.fixed else None
    return table is not None and not table.pending and table.num_rows <= LARGEST_CYCLE


class Enumerate(Node):
    """Pairs (position, element), the positions being integers from `start`."""

    def __init__(self, source: Node, start: int) -> None:
        self.source = source
        self.sources = (source,)
        self.start = whole_number(start, "start", -(1 << 31))
        self.label = "enumerate()"

    def open(self, run: Run) -> Pull:
        pull = self.source.open_elements(run)
        position = self.start

        def pull_numbered(limit: int) -> Array:
            nonlocal position
            chunk = pull(limit)
            items = [self.element(position + offset, batch) for offset, batch in enumerate(chunk)]
            position += len(chunk)
            return streams.as_objects(items)

        return pull_numbered

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
