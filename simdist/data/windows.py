"""Windows: datasets of a few consecutive elements each, which may overlap.

Elements that are rows of a table stay row numbers in each window they are in.

Taught in lesson 08.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import numpy as np

from simdist.arguments import flag, whole_number
from simdist.data import streams
from simdist.data.absent_names import refusal
from simdist.data.batch import Batch
from simdist.data.caching import for_one_pass, new_pass
from simdist.data.grouping import require_room
from simdist.data.joining import spec_of_element
from simdist.data.leaves import Array, ArraySpec, Element, ElementFunction, Structure, structure_of, unflatten
from simdist.data.nested import PROBED, Members, inner_dataset, interleaved, spec_of_members
from simdist.data.nodes import UNKNOWN, Node, Pass, Spec, Transform, single_rows
from simdist.data.pipeline import Pipeline
from simdist.data.reach import reached
from simdist.data.sources import table_spec
from simdist.data.streams import Pull
from simdist.data.surroundings import note_names
from simdist.data.table import Table

__all__ = ["Held", "Windows"]

DatasetType = TypeVar("DatasetType", bound=Pipeline)

STEPS = frozenset(  # of datasets; of windows they are steps of what flat_map makes of them
    {
        *("as_numpy_iterator", "batch", "cache", "concatenate", "element_spec", "enumerate", "filter", "interleave"),
        *("map", "padded_batch", "prefetch", "reduce", "repeat", "shard"),
        *("shuffle", "skip", "take", "unbatch", "with_options", "zip"),
    }
)
LEAF = structure_of(0)  # of an element that is one array


class Held(Node):
    """Elements that are there already: row numbers of a table, or objects.

    Args:
        elements: the array of a stream.
        table: that they are rows of; None for objects.
        like: says what they look like where there are none.
    """

    def __init__(self, elements: Array, table: Table | None, like: Callable[[], Spec]) -> None:
        self.elements, self.rows, self.like = elements, table, like
        self.label = f"a window of {len(elements)}"

    @property
    def free(self) -> bool:
        return True

    @property
    def fixed(self) -> bool:
        return self.rows is not None

    def table(self) -> Table | None:
        return self.rows

    def over(self, sources: tuple[Node, ...]) -> Node:
        return self

    def open(self, one_pass: Pass) -> Pull:
        return streams.from_rows(for_one_pass(self.elements))

    def cardinality(self) -> int:
        return len(self.elements)

    def spec(self) -> Spec:
        if self.rows is not None:
            return table_spec(self.rows)
        return spec_of_element(self.elements[0]) if len(self.elements) else self.like()


class Extent:
    """Where windows begin, and which elements each has.

    Args:
        size: elements of a window, 1 or more.
        shift: from the begin of one window to that of the next, 1 or more; None is `size`.
        stride: from an element of a window to its next one, 1 or more.
        drop_remainder: leave out the last windows that have fewer.
    """

    def __init__(self, size: int, shift: int | None, stride: int, drop_remainder: bool) -> None:
        self.size = whole_number(size, "size", 1)
        self.shift = self.size if shift is None else whole_number(shift, "shift", 1)
        self.stride = whole_number(stride, "stride", 1)
        self.drop_remainder = flag(drop_remainder, "drop_remainder")

    @property
    def span(self) -> int:
        """Elements from the first of a window to its last."""
        return (self.size - 1) * self.stride + 1

    def count(self, total: int) -> int:
        """Windows of so many elements; a number below 0 stays."""
        if total < 0:
            return total
        return max(0, -(-(total - self.span + 1 if self.drop_remainder else total) // self.shift))

    def cut(self, pull: Pull) -> Callable[[], Array | None]:
        """The next window of a stream at each call, as an array; None at the end."""
        ahead: deque[Array] = deque()  # of one element each
        to_skip = 0

        def next_window() -> Array | None:
            nonlocal to_skip
            while to_skip and len(chunk := pull(to_skip)):
                to_skip -= len(chunk)
            while len(ahead) < self.span and len(chunk := pull(self.span - len(ahead))):
                ahead.extend(chunk[at : at + 1] for at in range(len(chunk)))
            if not ahead or (self.drop_remainder and len(ahead) < self.span):
                return None
            window = np.concatenate([ahead[at] for at in range(0, len(ahead), self.stride)])
            to_skip = max(0, self.shift - len(ahead))
            for _ in range(min(self.shift, len(ahead))):
                ahead.popleft()
            return window

        return next_window


class Windows(Generic[DatasetType]):
    """A sequence of windows, each of which is a dataset: what ``Dataset.window`` returns.

    An element that is a tuple or dict gives a window that is a tuple or dict of datasets, as in tf.data. Iterate over the windows, or
    make one dataset of them by `flat_map`.

    Args:
        source: the elements.
        extent: which of them each window has.
        make: from a node to a dataset.

    Example:
        >>> from simdist.data import Dataset
        >>> [[int(x) for x in window] for window in Dataset.range(5).window(3, shift=2)]
        [[0, 1, 2], [2, 3, 4], [4]]
    """

    def __init__(self, source: Node, extent: Extent, make: Callable[[Node], DatasetType]) -> None:
        require_room(source, extent.size, f"window({extent.size})")
        self._cutter = _Cutter(source, extent, make)
        self._make = make

    def __iter__(self) -> Iterator[Element]:
        return iter(self._cutter.open(new_pass(self._cutter.source)), None)

    def flat_map(self, map_func: ElementFunction) -> DatasetType:
        """One dataset of all elements of the datasets that a function makes of windows.

        Args:
            map_func: from a window to a dataset; a window that is a tuple of datasets is unpacked into arguments.

        Example:
            >>> from simdist.data import Dataset
            >>> windows = Dataset.range(5).window(3, shift=1, drop_remainder=True)
            >>> [batch.tolist() for batch in windows.flat_map(lambda window: window.batch(3))]
            [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        note_names(map_func)
        return self._make(FlatWindows(self._cutter, map_func))

    def cardinality(self) -> int:
        """Number of windows; -1 without an end, -2 where only running can tell."""
        return self._cutter.extent.count(self._cutter.source.cardinality())

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            raise TypeError("the number of these windows is not known, or has no end; use .cardinality()")
        return count

    def __bool__(self) -> bool:
        return True  # never a question of its length

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            one = f"windows.flat_map(lambda window: window.batch({self._cutter.extent.size})), which is a dataset, and then its {name}"
            raise refusal("'Windows' object", name, one if name in STEPS else None)

    def __repr__(self) -> str:
        return f"{self._cutter.source.describe()}.window({self._cutter.extent.size})"


class _Cutter:
    """Cuts the elements of a source into windows that are datasets."""

    def __init__(self, source: Node, extent: Extent, make: Callable[[Node], Pipeline]) -> None:
        self.source, self.extent, self.make = source, extent, make

    def open(self, one_pass: Pass) -> Callable[[], Element | None]:
        """The next window at each call: nested datasets; None at the end."""
        table = self.source.table()
        cut = self.extent.cut(self.source.open(one_pass))

        def next_window() -> Element | None:
            elements = cut()
            return None if elements is None else self.datasets(elements, table)

        return next_window

    def datasets(self, elements: Array, table: Table | None) -> Element:
        structure: Structure = table.structure if table is not None else elements[0].structure
        if structure == LEAF:
            return self.make(Held(elements, table, self.source.spec))
        if table is not None and not table.pending:
            nodes = [Held(elements, column, self.source.spec) for column in self._columns]
            return unflatten(structure, [self.make(node) for node in nodes])
        batches = list(elements) if table is None else single_rows(table, elements)
        parts = zip(*(batch.leaves() for batch in batches), strict=True)
        columns = [streams.as_objects([Batch(None, None, (part,), LEAF) for part in column]) for column in parts]
        return unflatten(structure, [self.make(Held(column, None, self.source.spec)) for column in columns])

    def empty(self) -> Element:
        """A window without elements, which says what those of others look like."""
        structure, leaves = self.source.spec()
        likes: list[Callable[[], Spec]] = [partial(_single, leaf) for leaf in leaves]
        return unflatten(structure, [self.make(Held(streams.NOTHING, None, like)) for like in likes])

    @cached_property
    def _columns(self) -> list[Table]:
        table = self.source.table()
        assert table is not None
        return [Table.from_leaves([column], LEAF) for column in table.columns]


def _single(leaf: ArraySpec) -> Spec:
    return LEAF, (leaf,)


class FlatWindows(Transform):
    """The elements of the datasets that a function makes of windows."""

    def __init__(self, cutter: _Cutter, fn: ElementFunction) -> None:
        if not callable(fn):
            raise TypeError(f"flat_map was given {fn!r}; expected a function from a window to a dataset")
        super().__init__(cutter.source, f"window({cutter.extent.size}).flat_map()")
        self.cutter, self.fn = cutter, fn

    @property
    def knows_spec(self) -> bool:
        return False

    def over(self, sources: tuple[Node, ...]) -> Node:
        return FlatWindows(_Cutter(sources[0], self.cutter.extent, self.cutter.make), self.fn)

    def open(self, one_pass: Pass) -> Pull:
        next_window = self.cutter.open(one_pass)
        one_pass.will_call(self.fn)
        members = Members("window.flat_map", self.fn)

        def next_member() -> Pull | None:
            window = next_window()
            return None if window is None else members.opened(self.made_of(window), one_pass)

        return interleaved(next_member, 1, streams.MAX_CHUNK)

    def made_of(self, window: Element) -> Element:
        """What the function makes of a window."""
        return self.fn(*window) if type(window) is tuple else self.fn(window)

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN

    def spec(self) -> Spec:
        one_pass, reach = Pass(probing=True), reached(self.fn)
        next_window = self.cutter.open(one_pass)
        try:
            windows = [window for _ in range(PROBED if self.source.free else 1) if (window := next_window()) is not None]
            windows = windows or [self.cutter.empty()]
            return spec_of_members((inner_dataset(self.made_of(window), "window.flat_map", self.fn) for window in windows), self)
        finally:
            reach.put_back()
            one_pass.put_back()
