"""The idea of a pipeline step, and what one pass over it carries.

A dataset is a chain of nodes. A node says what its elements are before anything runs (rows of which table, how many,
of what shape), and opens a stream of them. Opening is given a `Pass`: what belongs to one pass of one iterator, which
is nothing but the numbers that shuffles need.

Invariants:
- A node whose `table()` is not None streams row numbers of that table; any other streams `Batch` objects.
- A `free` node can be read ahead without calling user code that could notice.
- A `fixed` node gives the same rows in the same order, every time.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array, ArraySpec, ElementFunction, Structure
from simdist.data.reach import Reach, reached
from simdist.data.streams import Pull
from simdist.data.surroundings import warn_of_changed_names
from simdist.data.table import Table

__all__ = ["INFINITE", "LARGEST_CYCLE", "UNKNOWN", "Node", "Pass", "Reorder", "Spec", "Transform", "single_rows"]

INFINITE = -1  # cardinality of a dataset without an end
UNKNOWN = -2  # cardinality that only running can tell
LARGEST_CYCLE = 1 << 16  # rows of a fixed order that a repeat keeps as one array

Spec = tuple[Structure, tuple[ArraySpec, ...]]


class Pass:
    """One pass of an iterator over a pipeline: which iteration each shuffle is in, and with which seed.

    Args:
        bases: number of the first iteration of each shuffle; 0 where none is given.
        seeds: of shuffles; those that are not among them have their own.
        probing: True for a pass that only wants to see what an element looks like.

    Attributes:
        stays: set by a step that raises and gives the same element when it is asked again. What raises otherwise is passed over.
    """

    def __init__(self, bases: Mapping[Node, int] | None = None, seeds: Mapping[Node, int] | None = None, *, probing: bool = False) -> None:
        self.bases = bases or {}
        self.seeds = seeds or {}
        self.openings = WeakKeyDictionary[Node, int]()  # a function of the user may make shuffles that nobody needs for long
        self.probing = probing
        self.stays = False
        self._tried: list[Reach] = []

    def next_iteration(self, shuffle: Node) -> int:
        """The number of the iteration that this shuffle opens now."""
        opening = self.openings.get(shuffle, 0)
        self.openings[shuffle] = opening + 1
        return self.bases.get(shuffle, 0) + opening

    def will_call(self, fn: ElementFunction) -> None:
        """A function of the user will be called; a pass that only looks undoes what it changes."""
        warn_of_changed_names(fn, "the dataset")
        if self.probing:
            self._tried.append(reached(fn))

    def gathered(self, source: Pull, size: int, held: list[Batch]) -> list[Batch]:
        """The next `size` elements, or all that are left; if one raises, those before it go with it, as in tf.data, unless it stays.

        Args:
            source: of the elements.
            size: how many.
            held: those of before a step raised that stays; it is changed.
        """
        try:
            while len(held) < size and len(chunk := source(size - len(held))):
                held.extend(chunk)
        except Exception:
            if not self.stays:
                held.clear()
            raise
        items = held[:]
        held.clear()
        return items

    def put_back(self) -> None:
        """Have what the functions have changed as it was."""
        for reach in reversed(self._tried):
            reach.put_back()


class Node(ABC):
    """One step of a pipeline."""

    sources: tuple[Node, ...] = ()
    label: str = ""

    @abstractmethod
    def open(self, one_pass: Pass) -> Pull:
        """A new stream of this node's elements."""

    @abstractmethod
    def cardinality(self) -> int:
        """Number of elements, or `INFINITE`, or `UNKNOWN`."""

    @abstractmethod
    def spec(self) -> Spec:
        """What one element looks like."""

    def table(self) -> Table | None:
        """The table that the elements are rows of, if they are."""
        return None

    def batched_table(self) -> Table | None:
        """The table whose rows the elements are batches of, if they are."""
        return None

    @property
    def free(self) -> bool:
        """True if reading ahead calls no user code that could notice."""
        return False

    @property
    def fixed(self) -> bool:
        """True if every pass gives the same rows in the same order, and ends."""
        return False

    @property
    def knows_spec(self) -> bool:
        """True if `spec` calls no code of the user."""
        return all(source.knows_spec for source in self.sources)

    @property
    def static_batch_size(self) -> int | None:
        """The batch size where the pipeline itself says it, None where only elements do."""
        return None

    @property
    def full_batches(self) -> bool:
        """True if all elements are batches of one size: a last one with fewer rows was left out."""
        return False

    @abstractmethod
    def over(self, sources: tuple[Node, ...]) -> Node:
        """The same step over other sources, one for each that it has now."""

    def open_elements(self, one_pass: Pass) -> Pull:
        """A new stream of `Batch` objects, whatever this node streams."""
        pull, table = self.open(one_pass), self.table()
        if table is None:
            return pull
        return lambda limit: streams.as_objects(single_rows(table, pull(limit)))

    def describe(self) -> str:
        """The pipeline as one would write it."""
        before = ", ".join(source.describe() for source in self.sources)
        return f"{before}.{self.label}" if len(self.sources) == 1 else self.label.replace("...", before)


def single_rows(table: Table, rows: Array) -> list[Batch]:
    """One unbatched element per row number."""
    return [Batch(table, rows[at : at + 1].reshape(())) for at in range(len(rows))]


class Transform(Node):
    """A step with one source.

    Args:
        source: the step before it.
        label: the call that makes this step, as one would write it.
    """

    def __init__(self, source: Node, label: str) -> None:
        self.source = source
        self.sources = (source,)
        self.label = label


class Reorder(Transform):
    """A step whose elements are elements of its source: chosen, repeated or in another order."""

    @property
    def free(self) -> bool:
        return self.source.free

    @property
    def fixed(self) -> bool:
        return self.source.fixed

    def table(self) -> Table | None:
        return self.source.table()

    def batched_table(self) -> Table | None:
        return self.source.batched_table()

    @property
    def full_batches(self) -> bool:
        return self.source.full_batches

    def spec(self) -> Spec:
        return self.source.spec()

    def cardinality(self) -> int:
        return self.source.cardinality()

    @property
    def static_batch_size(self) -> int | None:
        return self.source.static_batch_size
