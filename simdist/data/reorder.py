"""The steps that only choose and reorder elements: take, skip, shard, repeat, shuffle, prefetch, cache.

Their elements are elements of their source, so all of them work on arrays of row numbers, or of batches, alike.

Taught in lesson 08.
"""

from __future__ import annotations

from contextlib import suppress

from simdist.arguments import whole_number
from simdist.data import streams
from simdist.data.nodes import INFINITE, LARGEST_CYCLE, UNKNOWN, Node, Pass, Reorder, Transform
from simdist.data.seeds import EPOCH_BLOCK, seed_or_default
from simdist.data.shuffling import permuted_epochs, shuffled
from simdist.data.streams import Pull
from simdist.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["EveryNth", "HintedShard", "Prefetch", "Repeat", "Shuffle", "Skip", "Take", "prefetched"]


class Take(Reorder):
    """The first `count` elements; -1 takes all."""

    def __init__(self, source: Node, count: int) -> None:
        self.count = whole_number(count, "count", -1)
        super().__init__(source, f"take({count})")

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Take(sources[0], self.count)

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open(one_pass)
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

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Skip(sources[0], self.count)

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open(one_pass)
        return streams.taken(pull, 0) if self.count < 0 else streams.skipped(pull, self.count)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if self.count < 0:
            return 0
        return total if total < 0 else max(0, total - self.count)


class EveryNth(Reorder):
    """Every `num_shards`-th element, from position `index` on: what ``Dataset.shard`` keeps."""

    def __init__(self, source: Node, num_shards: int, index: int) -> None:
        self.num_shards = whole_number(num_shards, "num_shards", 1)
        self.index = whole_number(index, "index", 0)
        if index >= num_shards:
            raise InvalidArgumentError(f"shard index {index} with {num_shards} shards; expected an index from 0 to {num_shards - 1}")
        super().__init__(source, f"shard({num_shards}, {index})")

    def over(self, sources: tuple[Node, ...]) -> Node:
        return EveryNth(sources[0], self.num_shards, self.index)

    def open(self, one_pass: Pass) -> Pull:
        return streams.sharded(self.source.open(one_pass), self.num_shards, self.index)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        return total if total < 0 else max(0, -(-(total - self.index) // self.num_shards))


class HintedShard(Reorder):
    """The place of a shard whose number and index are filled in when the dataset is distributed."""

    def __init__(self, source: Node) -> None:
        super().__init__(source, "shard(SHARD_HINT, SHARD_HINT)")

    @property
    def fixed(self) -> bool:
        return False  # it cannot be run yet

    def over(self, sources: tuple[Node, ...]) -> Node:
        return HintedShard(sources[0])

    def open(self, one_pass: Pass) -> Pull:
        if not one_pass.probing:
            raise FailedPreconditionError(
                "a dataset with shard(SHARD_HINT, SHARD_HINT) was iterated before its shards are known; expected it to be "
                "distributed with the policy HINT; set options.auto_shard_policy = AutoShardPolicy.HINT, or give numbers"
            )
        return self.source.open(one_pass)

    def cardinality(self) -> int:
        return UNKNOWN


class Repeat(Reorder):
    """All elements `count` times; None or -1 is for ever."""

    def __init__(self, source: Node, count: int | None) -> None:
        number = -1 if count is None else whole_number(count, "count", -1)
        self.count = None if number < 0 else number
        super().__init__(source, f"repeat({'' if self.count is None else self.count})")

    @property
    def fixed(self) -> bool:
        return False  # it may not end, or be long

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Repeat(sources[0], self.count)

    def open(self, one_pass: Pass) -> Pull:
        epochs = self.source.open_epochs(one_pass, self.count) if isinstance(self.source, Shuffle) else None
        if epochs is not None:
            return epochs
        table = self.source.table()
        if self.source.fixed and table is not None and table.num_rows <= LARGEST_CYCLE:
            with suppress(Exception):  # of a row that has its turn later
                return streams.cycled(streams.drained(self.source.open(one_pass)), self.count)
        return streams.repeated(lambda: self.source.open(one_pass), self.count)

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if self.count == 0 or total == 0:
            return 0
        if self.count is None:
            return INFINITE
        return total if total < 0 else total * self.count


class Shuffle(Reorder):
    """A random order through a buffer; a full permutation where the buffer holds everything."""

    def __init__(self, source: Node, buffer_size: int, seed: int | None, reshuffle_each_iteration: bool) -> None:
        self.buffer_size = whole_number(buffer_size, "buffer_size", 1)
        self.seed = seed_or_default(None if seed is None else whole_number(seed, "seed", -(1 << 63)))
        self.draws_seed = seed is None
        self.reshuffles = bool(reshuffle_each_iteration)
        self.iterations = 0  # iterators that were made: the next one begins with this iteration
        super().__init__(source, f"shuffle({buffer_size})")

    @property
    def fixed(self) -> bool:
        return self.source.fixed and not self.reshuffles

    def over(self, sources: tuple[Node, ...]) -> Node:
        moved = Shuffle(sources[0], self.buffer_size, self.seed, self.reshuffles)
        moved.iterations, moved.draws_seed = self.iterations, self.draws_seed
        return moved

    def open(self, one_pass: Pass) -> Pull:
        iteration = one_pass.next_iteration(self) if self.reshuffles else 0
        return shuffled(self.source.open(one_pass), self.buffer_size, one_pass.seeds.get(self, self.seed), iteration)

    def open_epochs(self, one_pass: Pass, count: int | None) -> Pull | None:
        """All iterations of a repeat as one stream, where each is a full permutation of a few fixed rows."""
        table = self.source.table()
        if not (self.reshuffles and self.source.fixed and table and table.num_rows <= EPOCH_BLOCK // 2):
            return None
        try:
            rows = streams.drained(self.source.open(one_pass))
        except Exception:  # of a row that has its turn later
            return None
        if not 0 < len(rows) <= self.buffer_size:
            return None
        return permuted_epochs(rows, one_pass.seeds.get(self, self.seed), one_pass.next_iteration(self), count)


class Prefetch(Reorder):
    """Ask for `buffer_size` elements ahead: no value changes."""

    def __init__(self, source: Node, buffer_size: int) -> None:
        self.buffer_size = whole_number(buffer_size, "buffer_size", -1)
        super().__init__(source, f"prefetch({buffer_size})")

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Prefetch(sources[0], self.buffer_size)

    def open(self, one_pass: Pass) -> Pull:
        return self.source.open(one_pass)


AUTOTUNED = 2  # elements that are kept ready where the number is left to the engine


def prefetched(node: Node) -> int:
    """Elements that the last prefetch of a chain keeps ready; 0 without one."""
    while isinstance(node, Transform):
        if isinstance(node, Prefetch):
            return node.buffer_size if node.buffer_size >= 0 else AUTOTUNED
        node = node.source
    return 0
