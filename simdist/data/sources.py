"""Where elements come from: the rows of a table, or any iterable of the user.

A table streams row numbers and costs nothing to run again. An iterable (a generator function, a Grain or torch loader,
a list) is read one element at a time, exactly as far as elements are asked for, and its arrays are copied: the
iterable may write to its buffers again before a late computation reads them.

Taught in lesson 08.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from simdist.arguments import name_of_function
from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array, ArraySpec, Element, Structure, common_spec, dtype_of, has_shape, spec_of
from simdist.data.nodes import UNKNOWN, Node, Pass, Spec
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["FromIterable", "FromTable", "NoElementsError", "blank_element", "probed_element", "probed_elements", "table_spec"]


class FromTable(Node):
    """The rows of a table, in order."""

    def __init__(self, table: Table, label: str) -> None:
        self.rows = table
        self.label = label

    @property
    def free(self) -> bool:
        return True

    @property
    def fixed(self) -> bool:
        return True

    def table(self) -> Table:
        return self.rows

    def over(self, sources: tuple[Node, ...]) -> Node:
        return self

    def open(self, one_pass: Pass) -> Pull:
        return streams.from_rows(np.arange(self.rows.num_rows, dtype=np.int32))

    def cardinality(self) -> int:
        return self.rows.num_rows

    def spec(self) -> Spec:
        return table_spec(self.rows)


class NoElementsError(InvalidArgumentError):
    """Nothing says what the elements of a pipeline are like, as it has none."""


class FromIterable(Node):
    """Whatever an iterable of the user gives: a generator function, a data loader, a list of elements."""

    def __init__(self, iterable: Iterable[Element] | Callable[[], Iterable[Element]]) -> None:
        if not callable(iterable) and not isinstance(iterable, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"from_iterable was given {type(iterable).__name__}; expected an iterable of elements, or a function that returns one"
            )
        self.iterable = iterable
        self.name = name_of_function(iterable.func if isinstance(iterable, partial) else iterable, "the function")
        self.label = "Dataset.from_iterable()"
        self.once: Iterator[Element] | None = iterable if isinstance(iterable, Iterator) else None
        self.put_back: deque[Element] = deque()  # elements that probing took from an iterator that cannot start again
        self.started = False
        self.structure: Structure | None = None

    @property
    def knows_spec(self) -> bool:
        return False

    def open(self, one_pass: Pass) -> Pull:
        values = self.peeked() if one_pass.probing and self.once is not None else self.start()
        ended = False
        failure: Exception | None = None

        def pull(limit: int) -> Array:
            nonlocal ended, failure
            items: list[Batch] = []
            try:
                while not ended and failure is None and len(items) < limit:
                    items.append(self.element(next(values)))
            except StopIteration:
                ended = True
            except Exception as error:
                failure = error  # comes behind the elements before it
            if failure is None or items:
                return streams.as_objects(items)
            error, failure = failure, None
            raise error

        return pull

    def over(self, sources: tuple[Node, ...]) -> Node:
        return self

    def start(self) -> Iterator[Element]:
        """A fresh pass over the iterable; one that is an iterator itself has only one."""
        if self.once is None:
            return self.iterator_of(self.iterable() if callable(self.iterable) else self.iterable)
        if self.started:
            raise FailedPreconditionError(
                "this dataset reads an iterator, which can be passed over only once; "
                "give from_iterable the function that makes it, or a list"
            )
        self.started = True
        return self.replayed(self.once)

    def iterator_of(self, given: Iterable[Element]) -> Iterator[Element]:
        """A pass over what the user gave, or what his function returned.

        Raises:
            TypeError: it is nothing that has elements.
        """
        if not hasattr(given, "__iter__") and not hasattr(given, "__getitem__"):
            raise TypeError(f"{self.name!r} returned {type(given).__name__}; expected an iterable of elements; is a `yield` missing?")
        return iter(given)

    def replayed(self, values: Iterator[Element]) -> Iterator[Element]:
        """The elements that were put back, then the rest; peeking may happen again at any time."""
        while True:
            if self.put_back:
                yield self.put_back.popleft()
                continue
            try:
                value = next(values)
            except StopIteration:
                return
            yield value

    def peeked(self) -> Iterator[Element]:
        """The elements of a one-pass iterator, each put back for the real pass."""
        yield from list(self.put_back)
        assert self.once is not None
        for value in self.once:
            self.put_back.append(value)
            yield value

    def element(self, value: Element) -> Batch:
        """One element, of the structure that all elements have."""
        if isinstance(value, list):
            parts: list[Element] = value
            value = tuple(parts) if all(map(has_shape, parts)) else parts  # torch loaders give lists of arrays
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


def table_spec(table: Table) -> Spec:
    """What one row of a table looks like, as far as its rows were computed."""
    rows = [[ArraySpec(shape, name) for shape, name in specs] for specs in (table.leaf_specs(), *table.found_specs())]
    return table.structure, tuple(map(common_spec, zip(*rows, strict=True)))


def probed_element(node: Node) -> Batch:
    """The first element of a pipeline, made only to see what it is like.

    Raises:
        NoElementsError: there is none.
    """
    found = probed_elements(node, 1)
    if not found:
        raise NoElementsError(f"{node.describe()} has no elements, so their shapes are unknown; expected at least one element")
    return found[0]


def probed_elements(node: Node, count: int) -> list[Batch]:
    """Up to `count` first elements of a pipeline, made only to see what they are like."""
    one_pass = Pass(probing=True)
    try:
        return list(streams.filled(node.open_elements(one_pass), count))
    finally:
        one_pass.put_back()


def blank_element(node: Node) -> Batch:
    """An element of zeros that looks like those of a pipeline, which has none; axes that vary have length 1."""
    structure, specs = node.spec()
    leaves = [np.zeros([1 if size is None else size for size in spec.shape], dtype_of(spec.dtype)) for spec in specs]
    return Batch(None, None, tuple(leaves), structure)
