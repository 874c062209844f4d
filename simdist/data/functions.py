"""The functions of the user: map and filter.

A pure function of table rows keeps the pipeline a stream of row numbers: a map gives rows of a new table, a filter
drops row numbers. An impure one, or one behind a batch or an iterable, is called for each element, in the order and at
the moment in which elements are asked for.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array, ArraySpec, ElementFunction, Structure, common_spec, flatten, spec_of
from simdist.data.nodes import UNKNOWN, Node, Pass, Reorder, Spec, Transform
from simdist.data.predicate import Predicate, predicate
from simdist.data.purity import call_on, name_of, truth
from simdist.data.reach import reached
from simdist.data.sharing import ComputedTables, mapped_table
from simdist.data.sources import blank_element, probed_elements, table_spec
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["Filter", "Map"]

PROBED = 4  # elements that show what a map returns, where looking at them has no effect


class Map(Transform):
    """A function of each element; a pure function of rows makes a new table."""

    def __init__(self, source: Node, fn: ElementFunction, pure: bool | None, computed: ComputedTables | None = None) -> None:
        if not callable(fn):
            raise TypeError(f"map was given {fn!r}; expected a function of one element")
        super().__init__(source, "map()")
        self.fn, self.pure = fn, pure
        self.computed: ComputedTables = {} if computed is None else computed  # one for all copies of this step
        self.found: Table | None = None
        self.decided = False
        self.structure: Structure | None = None
        self.keeps_rows = True  # until a result has another number of rows than its batch

    def table(self) -> Table | None:
        if not self.decided:
            rows = self.source.table()
            self.found = None if rows is None else mapped_table(rows, self.fn, self.pure, self.computed)
            self.decided = True
        return self.found

    @property
    def free(self) -> bool:
        return self.table() is not None and self.source.free

    @property
    def fixed(self) -> bool:
        return self.table() is not None and self.source.fixed

    @property
    def knows_spec(self) -> bool:
        return False

    @property
    def full_batches(self) -> bool:
        return self.keeps_rows and self.source.full_batches

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Map(sources[0], self.fn, self.pure, self.computed)

    def open(self, one_pass: Pass) -> Pull:
        if self.table() is not None:
            return self.source.open(one_pass)
        pull = self.source.open_elements(one_pass)
        one_pass.will_call(self.fn)
        return each(pull, self.element)

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
        if self.keeps_rows and self.source.full_batches:
            self.keeps_rows = result.is_batched and result.num_rows == common_rows(batch)
        return result

    def cardinality(self) -> int:
        return self.source.cardinality()

    def spec(self) -> Spec:
        table = self.table()
        if table is not None and table.num_rows:
            return table_spec(table)
        sources = probed_elements(self.source, PROBED if self.source.free else 1) or [blank_element(self.source)]
        tried = self.tried(sources)
        columns = zip(*(result.leaves() for _, result in tried), strict=True)
        varying = [varying_axes(self.source.spec()[1], before) for before, _ in tried]
        return tried[0][1].structure, tuple(varying_spec(column, varying) for column in columns)

    def tried(self, sources: Sequence[Batch]) -> list[tuple[Batch, Batch]]:
        """The first of some elements, and those others that the function can map, each with what it made; it leaves nothing behind."""
        reach = reached(self.fn)
        try:
            tried = [(sources[0], self.element(sources[0]))]
            for before in sources[1:]:
                with suppress(Exception):  # which is raised when its turn comes
                    tried.append((before, self.element(before)))
        finally:
            reach.put_back()
        return tried


def each(source: Pull, fn: Callable[[Batch], Batch]) -> Pull:
    """What `fn` gives for each element; one on which it raises does so when its turn comes, and is passed over."""
    waiting = streams.NOTHING
    failure: Exception | None = None

    def pull(limit: int) -> Array:
        nonlocal waiting, failure
        if failure is None and not len(waiting):
            waiting = source(limit)
        items: list[Batch] = []
        while failure is None and len(waiting) and len(items) < limit:
            batch, waiting = waiting[0], waiting[1:]
            try:
                items.append(fn(batch))
            except Exception as error:
                failure = error
        if failure is None or items:
            return streams.as_objects(items)
        error, failure = failure, None
        raise error

    return pull


def common_rows(batch: Batch) -> int | None:
    """The rows of a batch, some leaves of which may have no axes; None where there is no common number."""
    sizes = {len(leaf) for leaf in batch.leaves() if leaf.ndim}
    return sizes.pop() if len(sizes) == 1 else None


def varying_axes(specs: Sequence[ArraySpec], element: Batch) -> set[tuple[int, int]]:
    """The axes of an element that are not always as long: number and length of each."""
    pairs = zip(specs, element.leaves(), strict=True)
    return {(axis, leaf.shape[axis]) for spec, leaf in pairs for axis, size in enumerate(spec.shape) if size is None}


def varying_spec(results: Sequence[Array], varying: Sequence[set[tuple[int, int]]]) -> ArraySpec:
    """What a leaf is like: an axis that is always as long as the same one of the source's element, which varies, does so, too."""
    spec = common_spec(list(map(spec_of, results)))
    follows = [
        all((axis, leaf.shape[axis]) in axes for leaf, axes in zip(results, varying, strict=True)) for axis in range(len(spec.shape))
    ]
    return ArraySpec(tuple(None if follows[axis] else size for axis, size in enumerate(spec.shape)), spec.dtype)


class Filter(Reorder):
    """The elements for which a function returns True."""

    def __init__(self, source: Node, fn: ElementFunction, pure: bool | None) -> None:
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
    def free(self) -> bool:
        return self.predicate() is not None and self.source.free

    @property
    def fixed(self) -> bool:
        return self.predicate() is not None and self.source.fixed

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Filter(sources[0], self.fn, self.pure)

    def open(self, one_pass: Pass) -> Pull:
        rule = self.predicate()
        if rule is not None:
            return kept_rows(self.source.open(one_pass), rule)
        pull = self.source.open_elements(one_pass)
        one_pass.will_call(self.fn)

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
    """The rows that a pure filter keeps; a row on which it raises does so when its turn comes, and is passed over."""
    waiting = streams.NOTHING
    failure: Exception | None = None
    patience = 64 * rule.table.num_rows + streams.FUTILE_ROWS

    def pull(limit: int) -> Array:
        nonlocal waiting, failure
        dropped = 0
        while failure is None:
            if dropped > patience:
                raise streams.FutileError(
                    f"a filter dropped {dropped:,} elements one after another and may never keep one; put the filter before repeat()"
                )
            if not len(waiting):
                waiting = streams.NOTHING if rule.drops_all else source(limit)
            chunk = waiting[:limit]
            keeps, failure = rule.decide(chunk)
            kept = chunk[: len(keeps)][keeps]
            waiting = waiting[len(keeps) + (failure is not None) :]
            if len(kept) or (not len(chunk)):
                return kept
            dropped += len(chunk)
        error, failure = failure, None
        raise error

    return pull
