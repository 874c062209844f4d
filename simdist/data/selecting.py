"""Steps that keep some elements by what came before: take_while, unique, ignore_errors.

What they keep stays rows of its table.

Taught in lesson 08.
"""

from __future__ import annotations

import warnings

from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array, ElementFunction, flatten, is_text
from simdist.data.nodes import UNKNOWN, Node, Pass, Reorder, single_rows
from simdist.data.purity import call_on, name_of, truth
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["IgnoreErrors", "TakeWhile", "Unique"]


class _SomeElements(Reorder):
    """Elements of the source, each looked at when its turn comes."""

    @property
    def free(self) -> bool:
        return False

    @property
    def fixed(self) -> bool:
        return False

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN


class TakeWhile(_SomeElements):
    """The elements before the first for which a function returns False."""

    def __init__(self, source: Node, predicate: ElementFunction) -> None:
        if not callable(predicate):
            raise TypeError(f"take_while was given {predicate!r}; expected a function of one element that returns a boolean")
        super().__init__(source, "take_while()")
        self.predicate = predicate

    def over(self, sources: tuple[Node, ...]) -> Node:
        return TakeWhile(sources[0], self.predicate)

    def open(self, one_pass: Pass) -> Pull:
        pull, table = self.source.open(one_pass), self.source.table()
        one_pass.will_call(self.predicate)
        ended = False

        def pull_next(limit: int) -> Array:
            nonlocal ended
            chunk = streams.NOTHING if ended else pull(1)
            ended = not len(chunk) or not self.holds(element_at(chunk, table))
            return streams.NOTHING if ended else chunk

        return pull_next

    def holds(self, batch: Batch) -> bool:
        answer = call_on(self.predicate, batch.structure, batch.arguments())
        return truth(flatten(answer, f"the result of {name_of(self.predicate)}"), self.predicate)


class Unique(_SomeElements):
    """Each element once: the first of those that are equal."""

    def __init__(self, source: Node) -> None:
        super().__init__(source, "unique()")

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Unique(sources[0])

    def open(self, one_pass: Pass) -> Pull:
        pull, table = self.source.open(one_pass), self.source.table()
        seen = set[object]()

        def pull_new(limit: int) -> Array:
            for _ in range(streams.FUTILE_ROWS):
                chunk = pull(1)
                value = value_of(element_at(chunk, table)) if len(chunk) else None
                if value is None or value not in seen:
                    seen.add(value)
                    return chunk
            raise streams.FutileError(
                f"unique met {streams.FUTILE_ROWS:,} elements that it knows, and may never meet another; put it before repeat()"
            )

        return pull_new


class IgnoreErrors(_SomeElements):
    """The elements that can be made; those that raise are left out."""

    def __init__(self, source: Node, log_warning: bool) -> None:
        super().__init__(source, "ignore_errors()")
        self.log_warning = log_warning
        self.decided = False
        self.found: Table | None = None

    def over(self, sources: tuple[Node, ...]) -> Node:
        return IgnoreErrors(sources[0], self.log_warning)

    def table(self) -> Table | None:
        if not self.decided:  # once: what a cache remembers, and streams that are open, must stay of one kind when rows are computed
            table = self.source.table()
            self.found = None if table is not None and table.unvisited else table  # whether a row can be made has to be known here
            self.decided = True
        return self.found

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open(one_pass) if self.table() is not None else self.source.open_elements(one_pass)

        def pull_next(limit: int) -> Array:
            for _ in range(streams.FUTILE_ROWS):
                one_pass.stays = False
                try:
                    chunk = pull(1)
                    for element in chunk if chunk.dtype == object else ():
                        element.leaves()
                    return chunk
                except streams.FutileError:
                    raise
                except Exception as error:
                    if one_pass.stays:
                        raise  # it would raise for ever
                    if self.log_warning:
                        warnings.warn(f"ignore_errors left out an element that raised {type(error).__name__}: {error}", stacklevel=2)
            raise streams.FutileError(
                f"ignore_errors left out {streams.FUTILE_ROWS:,} elements one after another, and may never get one; mend what raises"
            )

        return pull_next


def element_at(chunk: Array, table: Table | None) -> Batch:
    """The first element of what a stream gave."""
    return chunk[0] if table is None else single_rows(table, chunk[:1])[0]


def value_of(batch: Batch) -> object:
    """What is equal for equal elements.

    Raises:
        InvalidArgumentError: of numbers with fractions, which are seldom equal.
    """
    odd = next((leaf.dtype.name for leaf in batch.leaves() if leaf.dtype.kind not in "biu" and not is_text(leaf.dtype.name)), None)
    if odd is not None:
        raise InvalidArgumentError(f"unique compares integers, booleans and strings; it was given {odd}; round it in a map first")
    return batch.structure, tuple((leaf.shape, leaf.dtype.kind, tuple(leaf.ravel().tolist())) for leaf in batch.leaves())
