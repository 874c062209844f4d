"""Elements of several sources: zip, side by side; and what holds for elements of all (one after another: concatenating.py).

Where all sources have fixed, short orders, the result is one table of its own, and elements stay row numbers; every
other combination is made element by element. A shuffle without a seed has no fixed order here, as its seed may become another one.

Taught in lesson 08.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.caching import cached_shuffles_of, shuffles_of
from simdist.data.leaves import Array, ArraySpec, Structure, is_text, structure_of, unflatten
from simdist.data.nodes import INFINITE, LARGEST_CYCLE, UNKNOWN, Node, Pass, Spec
from simdist.data.sources import NoElementsError
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["Zip", "common_batch_size", "is_short", "kind_of", "require_alike", "spec_of_all", "spec_of_element"]


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
            self.found = None
            with suppress(Exception):  # of a row that has its turn later, if at all
                self.found = self.joined() if all(map(is_short, self.sources)) else None
            self.decided = True
        return self.found

    def joined(self) -> Table:
        """One table of the rows that belong together, where all sources have fixed, short orders."""
        orders = [streams.drained(source.open(Pass())) for source in self.sources]
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

    @property
    def static_batch_size(self) -> int | None:
        return common_batch_size(self.sources)

    @property
    def full_batches(self) -> bool:
        return all(source.full_batches for source in self.sources)

    def compose(self, inner: list[Structure]) -> Structure:
        """The structure of the pair (or dict, ...) of elements."""
        blanks = [unflatten(structure, [0] * structure.num_leaves) for structure in inner]
        return structure_of(unflatten(self.outer, blanks))

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Zip(sources, self.outer)

    def open(self, one_pass: Pass) -> Pull:
        table = self.table()
        if table is not None:
            return streams.from_rows(np.arange(table.num_rows, dtype=np.int32))
        pulls = [source.open_elements(one_pass) for source in self.sources]
        held: list[Array] = []
        failure: Exception | None = None

        def pull(limit: int) -> Array:
            nonlocal held, failure
            for pull_one in pulls[len(held) :]:
                one_pass.stays = False
                try:
                    chunk = pull_one(1)
                except Exception as error:
                    if one_pass.stays:
                        raise
                    failure, chunk = failure or error, streams.NOTHING  # the other sources pass over theirs, too
                held.append(chunk)
                if failure is None and not len(chunk):
                    break  # the other sources are not asked for an element without a partner
            chunks, error, held, failure = held, failure, [], None
            if error is not None:
                raise error
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


def spec_of_all(nodes: tuple[Node, ...]) -> Spec:
    """What holds for the elements of all of some pipelines; one without elements says nothing.

    Raises:
        InvalidArgumentError: structures or dtypes differ.
        NoElementsError: none has elements.
    """
    found: Spec | None = None
    missing: NoElementsError | None = None
    for node in nodes:
        try:
            spec = node.spec()
        except NoElementsError as error:
            missing = error
            continue
        if found is not None:
            require_alike(found, spec)
            spec = found[0], tuple(widened(one, two) for one, two in zip(found[1], spec[1], strict=True))
        found = spec
    if found is None:
        raise missing or NoElementsError("there are no datasets, so the shapes of their elements are unknown; expected at least one")
    return found


def require_alike(first: Spec, second: Spec) -> None:
    """Refuse elements that one dataset cannot hold.

    Raises:
        InvalidArgumentError: structures or dtypes differ.
    """
    if first[0] != second[0]:
        raise InvalidArgumentError(
            f"cannot concatenate datasets of different structures: {first[0]} and {second[0]}; "
            "expected one structure; bring one of them into the other's form with a map"
        )
    for one, two in zip(first[1], second[1], strict=True):
        if kind_of(one) != kind_of(two):
            raise InvalidArgumentError(
                f"cannot concatenate elements of {one.dtype}{list(one.shape)} and {two.dtype}{list(two.shape)}; "
                "expected one dtype; convert one of them with a map"
            )


def spec_of_element(element: Batch) -> Spec:
    """What one element is like, with the shapes that it has."""
    structure, leaves = element.signature
    return structure, tuple(ArraySpec(shape, name) for shape, name in leaves)


def kind_of(spec: ArraySpec) -> str:
    """The dtype; for texts without their length."""
    return spec.dtype.rstrip("0123456789") if is_text(spec.dtype) else spec.dtype


def widened(first: ArraySpec, second: ArraySpec) -> ArraySpec:
    """What holds for the elements of both: None where they differ."""
    if len(first.shape) != len(second.shape):
        raise InvalidArgumentError(
            f"the elements of concatenated datasets have {len(first.shape)} and {len(second.shape)} axes, so no shape holds for all; "
            "expected one number of axes; reshape one of them with a map"
        )
    longer = max(first.dtype, second.dtype, key=lambda name: (len(name), name))  # of two texts, that with room for more letters
    return ArraySpec(tuple(one if one == two else None for one, two in zip(first.shape, second.shape, strict=True)), longer)


def common_batch_size(nodes: tuple[Node, ...]) -> int | None:
    """The batch size of all of them, None where they differ or one does not say."""
    sizes = {node.static_batch_size for node in nodes}
    return sizes.pop() if len(sizes) == 1 else None


def is_short(node: Node) -> bool:
    """True for a fixed order of few rows of plain columns, which no pass has otherwise."""
    table = node.table() if node.fixed and not has_drawn_order(node) else None
    return table is not None and not table.pending and table.num_rows <= LARGEST_CYCLE


def has_drawn_order(node: Node) -> bool:
    """Whether a shuffle has drawn its seed: a restored position, or the mains that share the elements, may give it another one."""
    return any(shuffle.draws_seed for shuffle in (*shuffles_of(node), *cached_shuffles_of(node)))
