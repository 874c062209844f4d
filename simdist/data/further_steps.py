"""Steps of a `Dataset` that need more than one element: datasets inside of it, windows, groups, states.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from simdist.arguments import flag, require_function, whole_number
from simdist.data import nested
from simdist.data.creation import DatasetCreation
from simdist.data.folding import Scan
from simdist.data.grouped import Buckets, GroupByWindow
from simdist.data.grouping import BatchRows, Unbatch
from simdist.data.hints import AUTOTUNE, require_hints
from simdist.data.leaves import Element, ElementFunction, Tree
from simdist.data.padding import PaddedBatch, shapes_to_boundary
from simdist.data.selecting import IgnoreErrors, TakeWhile, Unique
from simdist.data.surroundings import note_names
from simdist.data.windows import Extent, Windows
from simdist.errors import InvalidArgumentError

__all__ = ["FurtherSteps"]


class FurtherSteps(DatasetCreation):
    """The steps of `Dataset` that are more than one element after another."""

    def flat_map(self, map_func: ElementFunction) -> Self:
        """All elements of the datasets that a function makes of elements, one dataset after another.

        The function is called for each element, at every visit.

        Args:
            map_func: from an element, as in `map`, to a dataset. A shuffle in it needs a seed. The options of the dataset do not count.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.range(4).flat_map(lambda n: Dataset.range(n))]
            [0, 0, 1, 0, 1, 2]
        """
        note_names(map_func)
        return self._then(nested.Interleave(self._node, map_func, 1, 1, "flat_map"))

    def interleave(
        self,
        map_func: ElementFunction,
        cycle_length: int | None = None,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Self:
        """The elements of several datasets in turn, for example of several files.

        Args:
            map_func: from an element, as in `map`, to a dataset. A shuffle in it needs a seed. The options of the dataset do not count.
            cycle_length: datasets that are open at once, 1 or more; None or -1 are 16 (TensorFlow: as many as the machine has processors).
            block_length: consecutive elements of each, 1 or more.
            num_parallel_calls: accepted for tf.data's sake; the order is always kept.
            deterministic: accepted for tf.data's sake; it always is.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.range(1, 4).interleave(lambda n: Dataset.from_tensors(n).repeat(3), 2, 2)]
            [1, 1, 2, 2, 1, 2, 3, 3, 3]
        """
        require_hints(num_parallel_calls, deterministic)
        given = AUTOTUNE if cycle_length is None else whole_number(cycle_length, "cycle_length", at_most=nested.MOST_AT_ONCE)
        cycle = nested.CYCLE_LENGTH if given == AUTOTUNE else given
        note_names(map_func)
        return self._then(nested.Interleave(self._node, map_func, cycle, block_length, "interleave"))

    def window(self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False) -> Windows[Self]:
        """Datasets of `size` elements each, which may overlap.

        Args:
            size: elements of a window, 1 or more.
            shift: elements between the begins of two windows, 1 or more; None is `size`.
            stride: from one element of a window to its next, 1 or more.
            drop_remainder: leave out the last windows that have fewer elements.

        Returns:
            The windows: iterate over them, or make one dataset of them by ``.flat_map(lambda window: window.batch(size))``.

        Example:
            >>> from simdist.data import Dataset
            >>> windows = Dataset.range(6).window(3, shift=2, drop_remainder=True)
            >>> [batch.tolist() for batch in windows.flat_map(lambda window: window.batch(3))]
            [[0, 1, 2], [2, 3, 4]]
        """
        return Windows(self._node, Extent(size, shift, stride, drop_remainder), self._then)

    def group_by_window(
        self,
        key_func: ElementFunction,
        reduce_func: ElementFunction,
        window_size: int | None = None,
        window_size_func: Callable[[np.generic], int] | None = None,
    ) -> Self:
        """Put elements with equal keys together, and go on with the datasets that a function makes of these groups.

        Args:
            key_func: from an element, as in `map`, to an integer.
            reduce_func: from a key and a dataset of elements with this key to a dataset.
            window_size: elements of a group, 1 or more; the last group of each key may have fewer.
            window_size_func: from a key to that number; one of the two must be given.

        Example:
            >>> from simdist.data import Dataset
            >>> groups = Dataset.range(7).group_by_window(lambda x: x % 2, lambda key, group: group.batch(2), window_size=2)
            >>> [batch.tolist() for batch in groups]
            [[0, 2], [1, 3], [4, 6], [5]]
        """
        if (window_size is None) == (window_size_func is None):
            raise InvalidArgumentError(
                f"group_by_window was given window_size={window_size!r} and window_size_func={window_size_func!r}; expected one of the two"
            )
        size_of = window_size_func
        if size_of is None:
            size = whole_number(window_size, "window_size", 1)
            size_of = lambda _: size  # noqa: E731
        for given in (key_func, reduce_func):
            note_names(given)
        return self._then(GroupByWindow(self._node, key_func, reduce_func, size_of, self._then))

    def bucket_by_sequence_length(
        self,
        element_length_func: ElementFunction,
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Tree = None,
        padding_values: Tree = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
    ) -> Self:
        """Batches of elements of similar lengths, each filled up to the longest of its batch.

        Args:
            element_length_func: from an element, as in `map`, to its length.
            bucket_boundaries: lengths at which the next bucket begins, in rising order.
            bucket_batch_sizes: rows of a batch of each bucket, one more than boundaries.
            padded_shapes: as in `padded_batch`.
            padding_values: as in `padded_batch`.
            pad_to_bucket_boundary: fill up to one less than the boundary of the bucket where no shape is given; no element may be as
                long as the last boundary.
            no_padding: do not fill up: elements of a batch have one shape.
            drop_remainder: leave out last batches with fewer rows.

        Example:
            >>> from simdist.data import Dataset
            >>> import numpy as np
            >>> lines = Dataset.range(1, 5).map(lambda n: np.full(n, n))
            >>> [batch.shape for batch in lines.bucket_by_sequence_length(len, [3], [2, 2])]
            [(2, 2), (2, 4)]
        """
        require_function(element_length_func, "bucket_by_sequence_length")
        buckets = Buckets(bucket_boundaries, bucket_batch_sizes)
        to_boundary, last = flag(pad_to_bucket_boundary, "pad_to_bucket_boundary"), flag(drop_remainder, "drop_remainder")
        if to_boundary and padded_shapes is None and not self._node.knows_spec:
            raise InvalidArgumentError(
                "which axes are to be filled up to boundaries, only elements could tell; expected padded_shapes, with None for these"
            )
        as_it_is = flag(no_padding, "no_padding")

        def bucket_of(*parts: Element) -> np.int32:
            return buckets.number_of(element_length_func(*parts))

        def batches(key: np.integer[Any], group: Self) -> Self:
            size = buckets.batch_sizes[int(key)]
            if as_it_is:
                return group._then(BatchRows(group._node, size, last))
            shapes = shapes_to_boundary(self._node.spec(), padded_shapes, buckets.boundaries, int(key)) if to_boundary else padded_shapes
            return group._then(PaddedBatch(group._node, size, shapes, padding_values, last))

        return self.group_by_window(bucket_of, batches, window_size_func=lambda key: buckets.batch_sizes[int(key)])

    def scan(self, initial_state: Element, scan_func: ElementFunction) -> Self:
        """What a function gives for each element and a state, which it hands on from element to element.

        Args:
            initial_state: nested arrays and numbers; structure and dtypes stay.
            scan_func: from a state and an element to a pair: the new state, and an output element.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.range(5).scan(0, lambda total, x: (total + x, total))]
            [0, 0, 1, 3, 6]
        """
        note_names(scan_func)
        return self._then(Scan(self._node, initial_state, scan_func))

    def take_while(self, predicate: ElementFunction) -> Self:
        """The elements before the first for which a function returns False.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.range(9).take_while(lambda x: x < 3)]
            [0, 1, 2]
        """
        note_names(predicate)
        return self._then(TakeWhile(self._node, predicate))

    def unique(self) -> Self:
        """Each element once, of integers, booleans and strings.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1]).unique()]
            [1, 37, 2]
        """
        return self._then(Unique(self._node))

    def rebatch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """The same rows in batches of another size.

        Args:
            batch_size: rows, 1 or more.
            drop_remainder: leave out a last batch with fewer.

        Example:
            >>> from simdist.data import Dataset
            >>> [batch.tolist() for batch in Dataset.range(7).batch(4).rebatch(3)]
            [[0, 1, 2], [3, 4, 5], [6]]
        """
        return self._then(BatchRows(Unbatch(self._node), batch_size, flag(drop_remainder, "drop_remainder")))

    def ignore_errors(self, log_warning: bool = False) -> Self:
        """Leave out the elements that raise an error when they are made.

        Args:
            log_warning: warn of each.

        Example:
            >>> from simdist.data import Dataset
            >>> [float(x) for x in Dataset.range(3).map(lambda x: 6 // int(x)).ignore_errors()]
            [6.0, 3.0]
        """
        return self._then(IgnoreErrors(self._node, flag(log_warning, "log_warning")))

    def apply(self, transformation_func: Callable[[Self], Self]) -> Self:
        """What a function makes of this dataset.

        Args:
            transformation_func: from a dataset to a dataset.

        Raises:
            TypeError: it returned something else.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.range(9).apply(lambda dataset: dataset.take(2))]
            [0, 1]
        """
        require_function(transformation_func, "apply")
        found = transformation_func(self)
        if not isinstance(found, DatasetCreation):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"apply's function returned {type(found).__name__}; expected a dataset")
        return found
