"""The idea of a pipeline step, and the steps that only choose and reorder elements.

A dataset is a chain of nodes. A node says what its elements are before anything runs (rows of which table, how many,
of what shape), and opens a stream of them. Opening is given a `Run`: what belongs to one pass of one iterator, which
is nothing but the numbers that shuffles need.

Invariants:
- A node whose `table()` is not None streams row numbers of that table; any other streams `Batch` objects.
- A `free` node can be read ahead without calling user code that could notice.
- A `fixed` node gives the same rows in the same order, every time.

Taught in lesson 01.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jax.tree_util import PyTreeDef

from simdist.data import streams
from simdist.data.arguments import whole_number
from simdist.data.batch import Batch
from simdist.data.leaves import Array, ArraySpec
from simdist.data.seeds import seed_or_default
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["INFINITE", "UNKNOWN", "Node", "Reorder", "Run", "Shuffle", "ShuffleNodes", "Spec", "shuffles_of"]

INFINITE = -1  # cardinality of a dataset without an end
UNKNOWN = -2  # cardinality that only running can tell
LARGEST_CYCLE = 1 << 16  # rows of a fixed order that a repeat keeps as one array

Spec = tuple[PyTreeDef, tuple[ArraySpec, ...]]


class Run:
    """One iterator's pass: which iteration each shuffle is in.

    Args:
        bases: number of the first iteration of each shuffle; 0 where none is given.
        probing: True for a pass that only wants to see what an element looks like.
    """

    def __init__(self, bases: Mapping[Shuffle, int] | None = None, *, probing: bool = False) -> None:
        self.bases = bases or {}
        self.openings: dict[Shuffle, int] = {}
        self.probing = probing

    def next_iteration(self, shuffle: Shuffle) -> int:
        """The iteration that is opened now; a pass that only probes uses up none."""
        opening = self.openings.get(shuffle, 0)
        self.openings[shuffle] = opening + 1
        iteration = self.bases.get(shuffle, 0) + opening
        if not self.probing:
            shuffle.iterations = max(shuffle.iterations, iteration + 1)
        return iteration


class Node(ABC):
    """One step of a pipeline."""

    sources: tuple[Node, ...] = ()
    free: bool = False
    fixed: bool = False
    label: str = ""

    @abstractmethod
    def open(self, run: Run) -> Pull:
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
    def static_batch_size(self) -> int | None:
        """The batch size where the pipeline itself says it, None where only elements do."""
        return None

    def open_elements(self, run: Run) -> Pull:
        """A new stream of `Batch` objects, whatever this node streams."""
        pull, table = self.open(run), self.table()
        if table is None:
            return pull
        return lambda limit: streams.as_objects(single_rows(table, pull(limit)))

    def chain(self) -> Iterator[Node]:
        """This node and all before it, sources first."""
        for source in self.sources:
            yield from source.chain()
        yield self

    def describe(self) -> str:
        """The pipeline as one would write it."""
        before = ", ".join(source.describe() for source in self.sources)
        return f"{before}.{self.label}" if len(self.sources) == 1 else self.label.replace("...", before)


def single_rows(table: Table, rows: Array) -> list[Batch]:
    """One unbatched element per row number."""
    return [Batch(table, rows[at : at + 1].reshape(())) for at in range(len(rows))]


class Reorder(Node):
    """A step whose elements are elements of its source: chosen, repeated or in another order."""

    def __init__(self, source: Node, label: str) -> None:
        self.source = source
        self.sources = (source,)
        self.label = label
        self.free = source.free
        self.fixed = source.fixed

    def table(self) -> Table | None:
        return self.source.table()

    def batched_table(self) -> Table | None:
        return self.source.batched_table()

    def spec(self) -> Spec:
        return self.source.spec()

    def cardinality(self) -> int:
        return self.source.cardinality()

    @property
    def static_batch_size(self) -> int | None:
        return self.source.static_batch_size


class Take(Reorder):
    """The first `count` elements; -1 takes all."""

    def __init__(self, source: Node, count: int) -> None:
        self.count = whole_number(count, "count", -1)
        super().__init__(source, f"take({count})")

    def open(self, run: Run) -> Pull:
        pull = self.source.open(run)
        return pull if self.count < 0 else streams.taken(pull, self.count)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if self.count < 0 or total == UNKNOWN:
            return 0 if self.count == 0 else total
        return self.count if total == INFINITE else min(total, self.count)


class Skip(Reorder):
    """All but the first `count` elements; -1 skips all."""

    def __init__(self, source: Node, count: int) -> None:
        self.count = whole_number(count, "count", -1)
        super().__init__(source, f"skip({count})")

    def open(self, run: Run) -> Pull:
        pull = self.source.open(run)
        return streams.taken(pull, 0) if self.count < 0 else streams.skipped(pull, self.count)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if self.count < 0:
            return 0
        return total if total < 0 else max(0, total - self.count)


class Shard(Reorder):
    """Every element whose position is `index` modulo `num_shards`."""

    def __init__(self, source: Node, num_shards: int, index: int) -> None:
        self.num_shards = whole_number(num_shards, "num_shards", 1)
        self.index = whole_number(index, "index", 0)
        if index >= num_shards:
            raise InvalidArgumentError(
                f"shard index {index} with {num_shards} shards; expected an index from 0 to {num_shards - 1}"
            )
        super().__init__(source, f"shard({num_shards}, {index})")

    def open(self, run: Run) -> Pull:
        return streams.sharded(self.source.open(run), self.num_shards, self.index)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        return total if total < 0 else max(0, -(-(total - self.index) // self.num_shards))


class Repeat(Reorder):
    """All elements `count` times; None or -1 is for ever."""

    def __init__(self, source: Node, count: int | None) -> None:
        number = -1 if count is None else whole_number(count, "count", -1)
        self.count = None if number < 0 else number
        super().__init__(source, f"repeat({'' if self.count is None else self.count})")
        self.fixed = False

    def open(self, run: Run) -> Pull:
        table = self.source.table()
        if self.source.fixed and table is not None and table.num_rows <= LARGEST_CYCLE:
            return streams.cycled(streams.drained(self.source.open(run)), self.count)
        return streams.repeated(lambda: self.source.open(run), self.count)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if self.count == 0 or total == 0:
            return 0
        if self.count is None:
            return INFINITE if total != UNKNOWN else UNKNOWN
        return total if total < 0 else total * self.count


class Shuffle(Reorder):
    """A random order through a buffer; a full permutation where the buffer holds everything."""

    def __init__(self, source: Node, buffer_size: int, seed: int | None, reshuffle_each_iteration: bool) -> None:
        self.buffer_size = whole_number(buffer_size, "buffer_size", 1)
        self.seed = seed_or_default(None if seed is None else whole_number(seed, "seed", -(1 << 63)), "shuffle")
        self.reshuffles = bool(reshuffle_each_iteration)
        self.iterations = 0  # the first iteration number that no iterator has used
        super().__init__(source, f"shuffle({buffer_size})")
        self.fixed = source.fixed and not self.reshuffles

    def open(self, run: Run) -> Pull:
        iteration = run.next_iteration(self) if self.reshuffles else 0
        return streams.shuffled(self.source.open(run), self.buffer_size, self.seed, iteration)


class Prefetch(Reorder):
    """Ask for `buffer_size` elements ahead: no value changes."""

    def __init__(self, source: Node, buffer_size: int) -> None:
        self.buffer_size = whole_number(buffer_size, "buffer_size", -1)
        super().__init__(source, f"prefetch({buffer_size})")

    def open(self, run: Run) -> Pull:
        return self.source.open(run)


class Cache(Reorder):
    """Elements are made once, by the first iterator that gets so far, and remembered in their order.

    A shuffle before a cache therefore has one order for ever, that of its iteration 0.
    """

    def __init__(self, source: Node) -> None:
        super().__init__(source, "cache()")
        self.live: Pull | None = None
        self.kept: Any = streams.NOTHING
        self.length = 0
        self.ended = False

    def open(self, run: Run) -> Pull:
        at = 0

        def pull(limit: int) -> Array:
            nonlocal at
            if at >= self.length and not self.ended:
                self.extend(limit)
            chunk = self.kept[at : min(at + limit, self.length)]
            at += len(chunk)
            return chunk

        return pull

    def extend(self, limit: int) -> None:
        """Remember up to `limit` more elements."""
        if self.live is None:
            self.live = self.source.open(Run(probing=True))
        chunk = self.live(limit)
        self.ended = not len(chunk)
        end = self.length + len(chunk)
        if end > len(self.kept):
            larger = np.empty(max(2 * len(self.kept), end), chunk.dtype)
            larger[: self.length] = self.kept[: self.length]
            self.kept = larger
        self.kept[self.length : end] = chunk
        self.length = end


ShuffleNodes = list[Shuffle]


def shuffles_of(node: Node) -> ShuffleNodes:
    """The shuffles whose order depends on the iterator, sources first, each once; none from before a cache."""
    found: dict[Shuffle, None] = {}
    if not isinstance(node, Cache):
        for source in node.sources:
            found.update(dict.fromkeys(shuffles_of(source)))
    if isinstance(node, Shuffle):
        found[node] = None
    return list(found)
