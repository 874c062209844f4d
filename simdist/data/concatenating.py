"""Concatenation: the elements of several sources, one source after another.

A chain of concatenations is one step with many sources. As a step inside of a step for each, a chain of hundreds was deeper than Python can
call, and copied its rows at every link.

Taught in lesson 08.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.joining import common_batch_size, is_short, require_alike, spec_of_all, spec_of_element
from simdist.data.leaves import Array
from simdist.data.nodes import INFINITE, LARGEST_CYCLE, UNKNOWN, Node, Pass, Spec
from simdist.data.streams import Pull
from simdist.data.table import Table

__all__ = ["Concatenate", "concatenated"]


class Concatenate(Node):
    """All elements of each source, one source after another: a chain of concatenations is one step."""

    def __init__(self, *sources: Node) -> None:
        self.sources = tuple(part for source in sources for part in (source.sources if isinstance(source, Concatenate) else (source,)))
        self.label = f"concatenate of {len(self.sources)} datasets"
        self.found: Table | None = None
        self.decided = False

    def table(self) -> Table | None:
        if not self.decided:
            self.found = None
            with suppress(Exception):
                self.found = self.joined()
            self.decided = True
        return self.found

    def joined(self) -> Table | None:
        """One table of the rows of all, where all have fixed, short orders of rows that look alike."""
        tables = [table for source in self.sources if is_short(source) and (table := source.table())]
        if len(tables) < len(self.sources) or any(not has_rows_of(table, tables[0]) for table in tables[1:]):
            return None
        orders = [streams.drained(source.open(Pass())) for source in self.sources]
        if sum(map(len, orders[:-1])) > LARGEST_CYCLE:
            return None
        parts = [table.take(order) for table, order in zip(tables, orders, strict=True)]
        return Table.from_leaves([np.concatenate(columns) for columns in zip(*parts, strict=True)], tables[0].structure)

    @property
    def free(self) -> bool:
        return all(source.free for source in self.sources)

    @property
    def fixed(self) -> bool:
        return self.table() is not None

    @property
    def static_batch_size(self) -> int | None:
        return common_batch_size(self.sources)

    @property
    def full_batches(self) -> bool:
        return self.static_batch_size is not None and all(source.full_batches for source in self.sources)

    def batched_table(self) -> Table | None:
        table = self.sources[0].batched_table()
        return table if all(table is source.batched_table() for source in self.sources) else None

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Concatenate(*sources)

    def open(self, one_pass: Pass) -> Pull:
        table = self.table()
        if table is not None:
            return streams.from_rows(np.arange(table.num_rows, dtype=np.int32))
        sources = iter(self.sources)
        pull: Pull | None = next(sources).open_elements(one_pass)
        first: Spec | None = None
        begins = True  # whether the next element is the first of a source

        def pull_next(limit: int) -> Array:
            nonlocal pull, first, begins
            while pull is not None:
                chunk = pull(limit)
                if len(chunk):
                    if begins:
                        first, begins = checked_spec(first, chunk[0]), False
                    return chunk
                source = next(sources, None)
                pull, begins = source and source.open_elements(one_pass), True
            return streams.NOTHING

        return pull_next

    def cardinality(self) -> int:
        totals = [source.cardinality() for source in self.sources]
        if INFINITE in totals:
            return INFINITE
        return UNKNOWN if UNKNOWN in totals else sum(totals)

    def spec(self) -> Spec:
        return spec_of_all(self.sources)

    def describe(self) -> str:
        first, *others = (source.describe() for source in self.sources)
        return first + "".join(f".concatenate({other})" for other in others)


def concatenated(first: Node, second: Node) -> Node:
    """All elements of one source, then all of another.

    Raises:
        InvalidArgumentError: structures or dtypes differ, and no code of the user is needed to tell.
    """
    known = next((part for part in (first.sources if isinstance(first, Concatenate) else (first,)) if part.knows_spec), None)
    if known is not None and second.knows_spec:
        require_alike(known.spec(), second.spec())
    return Concatenate(first, second)


def checked_spec(first: Spec | None, element: Batch) -> Spec:
    """What the elements before are like, or this one where it is the first.

    Raises:
        InvalidArgumentError: this one has another structure or dtype.
    """
    found = spec_of_element(element)
    if first is not None:
        require_alike(first, found)
    return first or found


def has_rows_of(one: Table, other: Table) -> bool:
    """Whether the rows of two tables have one structure, and equal shapes and dtypes."""
    return one.structure == other.structure and one.leaf_specs() == other.leaf_specs()
