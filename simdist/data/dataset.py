"""`Dataset`: the elements of an input pipeline, written as a chain of steps, with the semantics of tf.data.

A dataset is a description. Each method returns a new one with a step added; nothing runs until it is iterated, and
each iterator makes its own pass. Behind the chain, elements are row numbers of a shared table for as long as that is
possible, and steps work on a thousand of them at a time (see nodes.py and streams.py).

Invariants: a dataset never changes, except that each pass of a reshuffling shuffle counts as an iteration; equal
pipelines with equal seeds give equal elements in every process.

Taught in lesson 08.
"""

from __future__ import annotations

from typing import cast

from simdist.arguments import flag, optional_flag, shown, whole_number
from simdist.data import grouping, reorder
from simdist.data.caching import Cache
from simdist.data.concatenating import concatenated
from simdist.data.functions import Filter, Map
from simdist.data.further_steps import FurtherSteps
from simdist.data.hints import AUTOTUNE, require_hints
from simdist.data.leaves import ElementFunction, Tree
from simdist.data.options import SHARD_HINT, Options
from simdist.data.padding import PaddedBatch
from simdist.data.surroundings import note_names
from simdist.errors import InvalidArgumentError

__all__ = ["AUTOTUNE", "Dataset"]


class Dataset(FurtherSteps):
    """A sequence of elements, each a nested structure of arrays.

    Make one with `from_tensor_slices`, `from_tensors`, `range`, `from_iterable`, `from_generator`, `from_files`, `list_files` or `zip`.

    Example:
        >>> dataset = Dataset.from_tensor_slices(([[0.0], [1.0], [2.0]], [0, 1, 2])).repeat(2).batch(4)
        >>> [labels.tolist() for features, labels in dataset]
        [[0, 1, 2, 0], [1, 2]]
    """

    def map(
        self,
        map_func: ElementFunction,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        *,
        pure: bool | None = None,
    ) -> Dataset:
        """Apply a function to each element.

        A tuple is unpacked into arguments, everything else, a namedtuple too, is one argument. Before batching, a pure function is called
        once per source row (a few rows twice, to find out whether it is pure), not once per visit. One that changes what it
        reaches (counts, remembers, draws) is called at every visit, and what was called to find out leaves nothing behind.

        Whether a function is pure is a guess: one that answers differently when it is called twice is not, nor one whose code
        reaches a random generator, a clock, an iterator or an open file. Code of other packages is not read. Where such code
        draws, and seldom, say ``pure=False``: else each epoch may repeat the draws of the first.

        An element on which the function raises does so when its turn comes; one who asks again gets the next one. A batch that holds it is
        left out as a whole where the rows of the batch are known without the element, as right behind a pure ``map`` of arrays; else
        the next batch begins right behind the element.

        Args:
            map_func: returns arrays, numbers, strings, or a tuple or dict of them; a list is an array. What it reads besides
                its arguments is read when an element is first computed; a later ``map`` reads it anew. A name that stands for
                something else by then, as the variable of a loop, is a warning: bind it, ``lambda x, i=i: x + i``.
            num_parallel_calls: accepted for tf.data's sake; the order is always kept.
            deterministic: accepted for tf.data's sake; it always is.
            pure: True or False where you know; None finds out.

        Example:
            >>> [int(x) for x in Dataset.range(3).map(lambda x: x + 10)]
            [10, 11, 12]
        """
        require_hints(num_parallel_calls, deterministic)
        note_names(map_func)
        return self._then(Map(self._node, map_func, optional_flag(pure, "pure")))

    def filter(self, predicate: ElementFunction, *, pure: bool | None = None) -> Dataset:
        """Keep the elements for which a function returns True.

        Args:
            predicate: receives an element as in `map` and returns one boolean.
            pure: True or False where you know; None finds out.

        Example:
            >>> [int(x) for x in Dataset.range(5).filter(lambda x: x % 2 == 0)]
            [0, 2, 4]
        """
        note_names(predicate)
        return self._then(Filter(self._node, predicate, optional_flag(pure, "pure")))

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True) -> Dataset:
        """A random order: each output leaves its slot of a buffer to the next input.

        Args:
            buffer_size: slots, 1 or more; with at least as many as there are elements, a full permutation.
            seed: the order follows from it and from the number of the iteration; None takes the engine's seed. Launched mains have a
                seed each: without one here, their orders differ, and a `shard` after the shuffle reads some rows twice and others never.
            reshuffle_each_iteration: False gives the same order every time.

        Example:
            >>> sorted(int(x) for x in Dataset.range(4).shuffle(4, seed=0))
            [0, 1, 2, 3]
        """
        return self._then(reorder.Shuffle(self._node, buffer_size, seed, flag(reshuffle_each_iteration, "reshuffle_each_iteration")))

    def repeat(self, count: int | None = None) -> Dataset:
        """All elements `count` times; None or -1 is for ever."""
        return self._then(reorder.Repeat(self._node, count))

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Put b = `batch_size` consecutive elements of shape [...] together: one element of shape [b, ...].

        Args:
            batch_size: elements, 1 or more.
            drop_remainder: leave out a last batch with fewer. Where workers read files of their own (`AutoShardPolicy.FILE`), each worker
                leaves out its own: with fewer rows than b in its files it has no batch.
            num_parallel_calls: accepted for tf.data's sake.
            deterministic: accepted for tf.data's sake.

        Example:
            >>> list(Dataset.range(5).batch(3))
            [array([0, 1, 2], dtype=int32), array([3, 4], dtype=int32)]
        """
        require_hints(num_parallel_calls, deterministic)
        return self._then(grouping.BatchRows(self._node, batch_size, flag(drop_remainder, "drop_remainder")))

    def padded_batch(
        self, batch_size: int, padded_shapes: Tree = None, padding_values: Tree = None, drop_remainder: bool = False
    ) -> Dataset:
        """Put consecutive elements of different shapes together, each filled up at the end of its axes.

        Args:
            batch_size: elements, 1 or more.
            padded_shapes: a shape per component, None (or -1) in it for the longest of the batch; None for all axes.
            padding_values: one value, or one per component; by default 0, False or the empty string.
            drop_remainder: leave out a last batch with fewer elements.

        Raises:
            InvalidArgumentError: an element is longer than its padded shape; raised when its turn comes.

        Example:
            >>> import numpy as np
            >>> ragged = Dataset.range(1, 3).map(lambda n: np.full(n, 7))
            >>> next(iter(ragged.padded_batch(2))).tolist()
            [[7, 0], [7, 7]]
        """
        return self._then(PaddedBatch(self._node, batch_size, padded_shapes, padding_values, flag(drop_remainder, "drop_remainder")))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """The elements of this dataset, then those of another.

        Args:
            dataset: elements of the same structure and dtypes; its options win over earlier ones.

        Raises:
            InvalidArgumentError: structures or dtypes differ; where only a function of the user can tell, when an element comes that does.

        Example:
            >>> [int(x) for x in Dataset.range(2).concatenate(Dataset.range(7, 9))]
            [0, 1, 7, 8]
        """
        if not isinstance(dataset, Dataset):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"concatenate was given {type(dataset).__name__}; expected a dataset; wrap it in from_tensor_slices")
        return Dataset(concatenated(self._node, dataset.node), self._options.merge(dataset.options()))

    def unbatch(self) -> Dataset:
        """The b rows of each element of shape [b, ...], one by one, of shape [...]."""
        return self._then(grouping.Unbatch(self._node))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every element whose position is `index` modulo `num_shards`.

        Args:
            num_shards: shards, 1 or more; `SHARD_HINT` for both marks the place where ``AutoShardPolicy.HINT`` shards.
            index: which of them, from 0.

        Raises:
            InvalidArgumentError: `index` is not below `num_shards`.

        Example:
            >>> [int(x) for x in Dataset.range(7).shard(3, 1)]
            [1, 4]
        """
        num_shards, index = whole_number(num_shards, "num_shards"), whole_number(index, "index")
        if num_shards == index == SHARD_HINT:
            return self._then(reorder.HintedShard(self._node))
        return self._then(reorder.EveryNth(self._node, num_shards, index))

    def take(self, count: int) -> Dataset:
        """The first `count` elements; -1 takes all."""
        return self._then(reorder.Take(self._node, count))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` elements; -1 skips all."""
        return self._then(reorder.Skip(self._node, count))

    def prefetch(self, buffer_size: int) -> Dataset:
        """Keep `buffer_size` elements ready (-1, AUTOTUNE, leaves the number to the engine); values do not change."""
        return self._then(reorder.Prefetch(self._node, buffer_size))

    def cache(self, filename: str = "") -> Dataset:
        """Make each element once and remember it; a shuffle before this step keeps the order of its first iteration.

        An element that cannot be made is tried again by the next pass; put `ignore_errors` before this step to do without it.

        Args:
            filename: empty, its default: elements are kept in memory.

        Raises:
            InvalidArgumentError: another file name; none is written.
        """
        if not isinstance(cast("object", filename), str):
            raise TypeError(f"filename is {shown(filename)}; expected no name: cache keeps elements in memory")
        if filename:
            raise InvalidArgumentError(f"cache keeps elements in memory, and writes no file {filename!r}. Leave the name out.")
        return self._then(Cache(self._node))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs (position, element).

        Example:
            >>> [(int(i), int(x)) for i, x in Dataset.range(5, 7).enumerate()]
            [(0, 5), (1, 6)]
        """
        return self._then(grouping.Enumerate(self._node, start))

    def with_options(self, options: Options) -> Dataset:
        """The same elements with these options, which win over earlier ones."""
        if not isinstance(options, Options):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"with_options was given {options!r}; expected an Options object; write Options()")
        return Dataset(self._node, self._options.merge(options))
