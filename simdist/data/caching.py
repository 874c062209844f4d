"""Caches: elements that are made once; and which shuffles stand before one, and which behind.

A shuffle behind all caches begins an iteration with each iterator. One before a cache has one order, so of it only the seed matters.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simdist.data import streams
from simdist.data.leaves import Array
from simdist.data.nodes import Node, Pass, Reorder
from simdist.data.reorder import Shuffle
from simdist.data.seeds import COMMON_SEED
from simdist.data.sources import FromIterable
from simdist.data.streams import Pull

__all__ = ["Cache", "cached_shuffles_of", "for_one_pass", "give_common_seeds", "new_pass", "shuffles_of"]


class Cache(Reorder):
    """Elements are made once, by the first iterator that gets so far, and remembered in their order.

    A shuffle before a cache therefore has one order for ever, that of its iteration 0. An element that cannot be made stays the next one:
    it is tried again when an iterator gets there, or asks once more. An iterator that is restored to a position with other seeds begins
    anew; those that are open keep what they have.
    """

    def __init__(self, source: Node) -> None:
        super().__init__(source, "cache()")
        self._shuffles = [*shuffles_of(source), *cached_shuffles_of(source)]
        self._kept: _Kept | None = None

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Cache(sources[0])

    def open(self, one_pass: Pass) -> Pull:
        seeds: dict[Node, int] = {shuffle: one_pass.seeds.get(shuffle, shuffle.seed) for shuffle in self._shuffles}
        kept = self._kept
        if kept is None or kept.seeds != seeds:
            kept = self._kept = _Kept(self.source, seeds)
        at = 0

        def pull(limit: int) -> Array:
            nonlocal at
            if at >= kept.length and not kept.ended:
                try:
                    kept.extend(limit)
                except Exception:
                    one_pass.stays = True
                    raise
            chunk = kept.elements[at : min(at + limit, kept.length)]
            at += len(chunk)
            return for_one_pass(chunk)

        return pull


def for_one_pass(chunk: Array) -> Array:
    """Remembered elements, with arrays of which the remembered ones know nothing."""
    if chunk.dtype != object:
        return chunk
    elements = np.empty(len(chunk), object)
    elements[:] = [element.again() for element in chunk]
    return elements


class _Kept:
    """What a cache remembers.

    Args:
        source: gives the elements.
        seeds: of its shuffles.

    Attributes:
        elements: the first `length` of them are known.
        ended: whether these are all.
    """

    def __init__(self, source: Node, seeds: Mapping[Node, int]) -> None:
        self.source = source
        self.seeds = seeds
        self.elements = streams.NOTHING
        self.length = 0
        self.ended = False
        self._live: Pull | None = None

    def extend(self, limit: int) -> None:
        """Remember up to `limit` more elements."""
        # none is open while this one is asked: one that has raised is over, and the next to ask goes on in a new one, after what is kept
        live, self._live = self._live or streams.skipped(self.source.open(Pass(seeds=self.seeds)), self.length), None
        chunk = live(limit)
        self._live = live
        self.ended = not len(chunk)
        end = self.length + len(chunk)
        if end > len(self.elements):
            larger = np.empty(max(2 * len(self.elements), end), chunk.dtype)
            larger[: self.length] = self.elements[: self.length]
            self.elements = larger
        self.elements[self.length : end] = chunk
        self.length = end


def reads_once(node: Node) -> bool:
    """Whether a pipeline begins with an iterator that nothing keeps, such as a generator: it cannot go back.

    Example:
        >>> from simdist.data import Dataset
        >>> [reads_once(Dataset.from_iterable(given).node) for given in (iter([1, 2]), [1, 2])]
        [True, False]
    """
    if isinstance(node, FromIterable):
        return node.once is not None
    return not isinstance(node, Cache) and any(map(reads_once, node.sources))


def shuffles_of(node: Node) -> list[Shuffle]:
    """The shuffles whose order depends on the iterator, sources first, each once; none from before a cache."""
    found: dict[Shuffle, None] = {}
    if not isinstance(node, Cache):
        for source in node.sources:
            found.update(dict.fromkeys(shuffles_of(source)))
    if isinstance(node, Shuffle):
        found[node] = None
    return list(found)


def cached_shuffles_of(node: Node) -> list[Shuffle]:
    """The shuffles before a cache, sources first, each once: iterators do not begin them, and have their seeds."""
    found: dict[Shuffle, None] = {}
    for source in node.sources:
        found.update(dict.fromkeys(cached_shuffles_of(source)))
        if isinstance(node, Cache):
            found.update(dict.fromkeys(shuffles_of(source)))
    return list(found)


def give_common_seeds(node: Node) -> None:
    """Let shuffles without a seed have the one of a notebook, so that programs which read parts of the elements agree on their order."""
    for shuffle in (*shuffles_of(node), *cached_shuffles_of(node)):
        if shuffle.draws_seed:
            shuffle.seed = COMMON_SEED


def new_pass(node: Node) -> Pass:
    """The next pass over a pipeline, which counts as an iteration of its shuffles."""
    bases: dict[Node, int] = {}
    for shuffle in shuffles_of(node):
        bases[shuffle] = shuffle.iterations
        shuffle.iterations += 1
    return Pass(bases)
