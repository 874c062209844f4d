"""The steps that make elements: sources, batches, and the functions of the user.

Where it can, a step keeps a pipeline a stream of row numbers: a pure map gives rows of a new table, a pure filter drops
row numbers, a zip of fixed orders is a table of its own. Where it cannot (an impure function, an iterable, a map after
batching), it makes concrete elements one at a time, in the order and at the moment in which they are asked for.

Taught in lesson 01.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from jax.tree_util import PyTreeDef, tree_structure

from simdist.data import streams
from simdist.data.arguments import whole_number
from simdist.data.batch import Batch, stack
from simdist.data.leaves import Array, ArraySpec, flatten, spec_of, unflatten
from simdist.data.mapped import Predicate, mapped_table, predicate
from simdist.data.nodes import INFINITE, LARGEST_CYCLE, UNKNOWN, Node, Reorder, Run, Spec
from simdist.data.purity import call_on, name_of, truth
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["BatchRows", "Enumerate", "Filter", "FromIterable", "FromTable", "Map", "Unbatch", "Zip"]

FUTILE_ROWS = 1_000_000  # rows that a filter may drop one after another, over and above 64 passes of the table


class FromTable(Node):
    """The rows of a table, in order."""

    free = True
    fixed = True

    def __init__(self, table: Table, label: str) -> None:
        self.rows = table
        self.label = label

    def table(self) -> Table:
        return self.rows

    def open(self, run: Run) -> Pull:
        return streams.from_rows(np.arange(self.rows.num_rows, dtype=np.int32))

    def cardinality(self) -> int:
        return self.rows.num_rows

    def spec(self) -> Spec:
        return table_spec(self.rows)


def table_spec(table: Table) -> Spec:
    """What one row of a table looks like."""
    return table.structure, tuple(ArraySpec(shape, name) for shape, name in table.leaf_specs())


def probed_element(node: Node) -> Batch:
    """The first element of a pipeline, made only to look at it."""
    chunk = node.open_elements(Run(probing=True))(1)
    if not len(chunk):
        raise InvalidArgumentError(
            f"{node.describe()} has no elements, so their shapes are unknown; expected at least one element"
        )
    return chunk[0]


class FromIterable(Node):
    """Whatever an iterable of the user gives: a generator function, a data loader, a list of elements."""

    def __init__(self, iterable: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not callable(iterable) and not hasattr(iterable, "__iter__"):
            raise TypeError(
                f"from_iterable was given {type(iterable).__name__}; "
                "expected an iterable of elements, or a function that returns one"
            )
        self.iterable = iterable
        self.label = "Dataset.from_iterable()"
        self.once: Iterator[Any] | None = iterable if isinstance(iterable, Iterator) else None
        self.looked_at: deque[Any] = deque()  # elements that probing took from an iterator that cannot start again
        self.started = False
        self.structure: PyTreeDef | None = None

    def open(self, run: Run) -> Pull:
        values = self.look() if run.probing and self.once is not None else self.start()
        ended = False

        def pull(limit: int) -> Array:
            nonlocal ended
            items = [] if ended else [self.element(value) for value in islice(values, limit)]
            ended = len(items) < limit
            return streams.as_objects(items)

        return pull

    def start(self) -> Iterator[Any]:
        """A fresh pass over the iterable; one that is an iterator itself has only one."""
        if self.once is None:
            fresh: Any = self.iterable() if callable(self.iterable) else self.iterable
            return iter(fresh)
        if self.started:
            raise FailedPreconditionError(
                "this dataset reads an iterator, which can be passed over only once; "
                "give from_iterable the function that makes it, or a list"
            )
        self.started = True
        return self.replayed(self.once)

    def replayed(self, values: Iterator[Any]) -> Iterator[Any]:
        while self.looked_at:
            yield self.looked_at.popleft()
        yield from values

    def look(self) -> Iterator[Any]:
        """The elements of a one-pass iterator, each put back for the real pass."""
        yield from list(self.looked_at)
        assert self.once is not None
        for value in self.once:
            self.looked_at.append(value)
            yield value

    def element(self, value: Any) -> Batch:
        """One element, of the structure that all elements have."""
        if isinstance(value, list) and all(hasattr(part, "shape") for part in value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            value = tuple(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # torch loaders give lists of arrays
        batch = Batch.from_value(value, "an element of the iterable")
        self.structure = self.structure or batch.structure
        if batch.structure != self.structure:
            raise InvalidArgumentError(
                f"an iterable gave elements of different structures: {self.structure}, then {batch.structure}; "
                "expected one structure for all elements"
            )
        return batch

    def cardinality(self) -> int:
        try:
            return len(self.iterable)  # pyright: ignore[reportArgumentType]
        except TypeError:
            return UNKNOWN

    def spec(self) -> Spec:
        batch = probed_element(self)
        return batch.structure, tuple(map(spec_of, batch.leaves()))


class Map(Node):
    """A function of each element; a pure function of rows makes a new table."""

    def __init__(self, source: Node, fn: Callable[..., Any], pure: bool | None) -> None:
        if not callable(fn):
            raise TypeError(f"map was given {fn!r}; expected a function of one element")
        self.source, self.fn, self.pure = source, fn, pure
        self.sources = (source,)
        self.label = "map()"
        self.found: Table | None = None
        self.decided = False
        self.structure: PyTreeDef | None = None

    def table(self) -> Table | None:
        if not self.decided:
            rows = self.source.table()
            self.found = None if rows is None else mapped_table(rows, self.fn, self.pure)
            self.decided = True
        return self.found

    @property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.table() is not None and self.source.free

    @property
    def fixed(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.table() is not None and self.source.fixed

    def open(self, run: Run) -> Pull:
        if self.table() is not None:
            return self.source.open(run)
        pull = self.source.open_elements(run)
        return lambda limit: streams.as_objects([self.element(batch) for batch in pull(limit)])

    def element(self, batch: Batch) -> Batch:
        """One element mapped, with the structure that all results have."""
        value = call_on(self.fn, batch.structure, batch.arguments())
        result = Batch.from_value(value, f"the result of {name_of(self.fn)}")
        self.structure = self.structure or result.structure
        if result.structure != self.structure:
            raise InvalidArgumentError(
                f"{name_of(self.fn)} returned {result.structure}, and {self.structure} before; "
                "expected one structure; return the same nesting from every branch"
            )
        return result

    def cardinality(self) -> int:
        return self.source.cardinality()

    def spec(self) -> Spec:
        table = self.table()
        if table is not None:
            return table_spec(table)
        before = probed_element(self.source)
        result = self.element(before)
        varies = any(leaf.shape[:1] == (None,) for leaf in self.source.spec()[1])
        rows = before.num_rows if varies else -1
        return result.structure, tuple(loosened(spec_of(leaf), rows) for leaf in result.leaves())


def loosened(spec: ArraySpec, rows: int) -> ArraySpec:
    """A first axis as long as the batch varies with it."""
    return ArraySpec((None, *spec.shape[1:]), spec.dtype) if spec.shape[:1] == (rows,) else spec


class Filter(Reorder):
    """The elements for which a function returns True."""

    def __init__(self, source: Node, fn: Callable[..., Any], pure: bool | None) -> None:
        if not callable(fn):
            raise TypeError(f"filter was given {fn!r}; expected a function of one element that returns a boolean")
        super().__init__(source, "filter()")
        self.fn, self.pure = fn, pure
        self.found: Predicate | None = None
        self.decided = False

    def predicate(self) -> Predicate | None:
        if not self.decided:
            rows = self.source.table()
            self.found = None if rows is None else predicate(rows, self.fn, self.pure)
            self.decided = True
        return self.found

    def table(self) -> Table | None:
        return self.source.table() if self.predicate() is not None else None

    @property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predicate() is not None and self.source.free

    @free.setter
    def free(self, value: bool) -> None: ...

    @property
    def fixed(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.predicate() is not None and self.source.fixed

    @fixed.setter
    def fixed(self, value: bool) -> None: ...

    def open(self, run: Run) -> Pull:
        rule = self.predicate()
        if rule is not None:
            return kept_rows(self.source.open(run), rule)
        pull = self.source.open_elements(run)

        def pull_kept(limit: int) -> Array:
            while len(chunk := pull(1)):
                if self.keeps(chunk[0]):
                    return chunk
            return streams.NOTHING

        return pull_kept

    def keeps(self, batch: Batch) -> bool:
        value = call_on(self.fn, batch.structure, batch.arguments())
        return truth(flatten(value, f"the result of {name_of(self.fn)}"), self.fn)

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN


def kept_rows(source: Pull, rule: Predicate) -> Pull:
    """The rows that a pure filter keeps; a row on which it raises does so when its turn comes."""
    failure: Exception | None = None
    patience = 64 * rule.table.num_rows + FUTILE_ROWS

    def pull(limit: int) -> Array:
        nonlocal failure
        dropped = 0
        while failure is None:
            if dropped > patience:
                raise InvalidArgumentError(
                    f"a filter dropped {dropped:,} elements one after another and may never keep one; "
                    "put the filter before repeat()"
                )
            chunk = streams.NOTHING if rule.drops_all else source(limit)
            keeps, failure = rule.decide(chunk)
            kept = chunk[: len(keeps)][keeps]
            if len(kept) or (not len(chunk)):
                return kept
            dropped += len(chunk)
        raise failure

    return pull


class BatchRows(Node):
    """Consecutive elements put together, with a new first axis."""

    def __init__(self, source: Node, batch_size: int, drop_remainder: bool) -> None:
        self.batch_size = whole_number(batch_size, "batch_size", 1)
        self.drop_remainder = bool(drop_remainder)
        self.source = source
        self.sources = (source,)
        self.label = f"batch({batch_size})"

    @property
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
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
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
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


NOT_BATCHED = "unbatch needs elements whose components share a first axis; expected a batched dataset; remove unbatch()"


def rows_of(batch: Batch) -> list[Batch]:
    """Each row of a concrete batch as an element."""
    if not batch.is_batched:
        raise InvalidArgumentError(NOT_BATCHED)
    leaves, structure = batch.leaves(), batch.structure
    return [
        Batch(None, None, tuple(np.asarray(leaf[row]) for leaf in leaves), structure) for row in range(batch.num_rows)
    ]


class Zip(Node):
    """One element of each source, side by side, until the shortest source ends."""

    def __init__(self, sources: tuple[Node, ...], outer: PyTreeDef) -> None:
        self.sources = sources
        self.outer = outer
        self.label = "Dataset.zip(...)"
        self.found: Table | None = None
        self.decided = False
        self.composed: PyTreeDef | None = None

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
    def free(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.table() is not None

    @property
    def fixed(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.table() is not None

    def compose(self, inner: list[PyTreeDef]) -> PyTreeDef:
        """The structure of the pair (or dict, ...) of elements."""
        blanks = [unflatten(structure, [0] * structure.num_leaves) for structure in inner]
        return tree_structure(unflatten(self.outer, blanks))

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
        paired = tree_structure((0, unflatten(structure, [0] * len(leaves))))
        return Batch(None, None, (flatten(position, "a position")[0][0], *leaves), paired)

    def cardinality(self) -> int:
        return self.source.cardinality()

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        paired = tree_structure((0, unflatten(structure, [0] * len(leaves))))
        return paired, (spec_of(flatten(self.start, "a position")[0][0]), *leaves)
