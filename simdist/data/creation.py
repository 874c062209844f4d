"""How a dataset is made: of arrays, of numbers, of any iterable, of files, or of other datasets side by side.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

import numpy as np

from simdist.arguments import flag
from simdist.data import joining, reorder
from simdist.data.files import FileNames, FileReader, FromFiles, Paths, lines_of
from simdist.data.leaves import Element, Tree, as_leaf, flatten, tree_flatten
from simdist.data.nodes import Node
from simdist.data.options import Options
from simdist.data.pipeline import Pipeline
from simdist.data.sources import FromIterable, FromTable
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["DatasetCreation"]

LARGEST_RANGE = 1 << 24  # longer ranges are counted instead of written down


class DatasetCreation(Pipeline):
    """The constructors of `Dataset`."""

    @classmethod
    def from_tensor_slices(cls, tensors: Tree) -> Self:
        """One element per row of the arrays.

        Args:
            tensors: a nested structure of arrays (or lists) of shape [n, ...], all of the same n.

        Raises:
            InvalidArgumentError: first dimensions differ, an array has none, or there is no array.

        Example:
            >>> from simdist.data import Dataset
            >>> list(Dataset.from_tensor_slices({"a": [1, 2]}))
            [{'a': array(1, dtype=int32)}, {'a': array(2, dtype=int32)}]
        """
        leaves, structure = flatten(tensors, "from_tensor_slices")
        sizes = [leaf.shape[0] if leaf.ndim else None for leaf in leaves]
        if None in sizes:
            raise InvalidArgumentError(
                f"component {sizes.index(None)} of from_tensor_slices is a scalar; expected at least one axis; "
                "use from_tensors for a single element"
            )
        if len(set(sizes)) > 1:
            raise InvalidArgumentError(
                f"the components of from_tensor_slices have {sizes} rows; expected equal first dimensions; "
                "check that features and labels belong together"
            )
        table = Table.from_leaves(leaves, structure)
        return cls(FromTable(table, f"Dataset.from_tensor_slices({table.num_rows} rows)"))

    @classmethod
    def from_tensors(cls, tensors: Tree) -> Self:
        """A single element: the whole structure.

        Example:
            >>> from simdist.data import Dataset
            >>> [x.shape for x in Dataset.from_tensors([[1.0, 2.0]])]
            [(1, 2)]
        """
        leaves, structure = flatten(tensors, "from_tensors")
        table = Table.from_leaves([leaf[None] for leaf in leaves], structure)
        return cls(FromTable(table, "Dataset.from_tensors()"))

    @classmethod
    def range(cls, *args: int) -> Self:
        """Integers, as in Python's range: ``range(stop)``, ``range(start, stop)``, ``range(start, stop, step)``.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.range(1, 7, 2)]
            [1, 3, 5]
        """
        try:
            numbers = range(*args)
        except ValueError as error:
            raise InvalidArgumentError(f"range{args}: {error}; expected a step other than 0") from error
        label = f"Dataset.range({', '.join(map(str, args))})"
        if len(numbers) > LARGEST_RANGE:
            return cls(FromIterable(numbers))
        column = as_leaf(np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64))
        return cls(FromTable(Table.from_leaves([column], flatten(0, "range")[1]), label))

    @classmethod
    def from_iterable(cls, iterable: Iterable[Element] | Callable[[], Iterable[Element]]) -> Self:
        """The elements of any iterable: a Grain or torch loader, a list, or a generator function.

        Args:
            iterable: an iterable of nested arrays, or a function that returns one; it is read one element at a time.
                An iterator (a generator that was called already) can be passed over only once.

        Example:
            >>> from simdist.data import Dataset
            >>> def squares():
            ...     for i in (1, 2, 3):
            ...         yield i * i
            >>> [int(x) for x in Dataset.from_iterable(squares).repeat(2)]
            [1, 4, 9, 1, 4, 9]
        """
        return cls(FromIterable(iterable))

    @classmethod
    def list_files(cls, file_pattern: Paths, shuffle: bool = True, seed: int | None = None) -> Self:
        """The names of files, one string per element.

        Args:
            file_pattern: a pattern such as ``"logs/*.txt"``, a path, or a list of these.
            shuffle: another order at each iteration; False keeps the sorted one.
            seed: as in `shuffle`.

        Raises:
            NotFoundError: no file matches.
        """
        names = FileNames(file_pattern)
        return cls(reorder.Shuffle(names, names.cardinality(), seed, True) if flag(shuffle, "shuffle") else names)

    @classmethod
    def from_files(cls, paths: Paths | Pipeline, read: Callable[[str], Element | Iterable[Element]] | None = None) -> Self:
        """The elements of files, one file after another.

        A file is read when its first element is asked for, and only once.

        Args:
            paths: a pattern, a path, a list of these, or a dataset of names (`list_files`).
            read: from a path to the elements of the file: arrays, whose rows are the elements, or an iterable of
                elements. None reads lines of text.

        Raises:
            NotFoundError: no file matches.

        Example:
            >>> from simdist.data import Dataset
            >>> squares = {"low": [0, 1], "high": [4, 9]}
            >>> [int(x) for x in Dataset.from_files(["low", "high"], read=squares.get)]
            [0, 1, 4, 9]
        """
        names = paths.node if isinstance(paths, Pipeline) else FileNames(paths)
        options = paths.options() if isinstance(paths, Pipeline) else None
        return cls(FromFiles(names, FileReader(lines_of if read is None else read)), options)

    @classmethod
    def zip(cls, *datasets: Tree) -> Self:
        """Elements side by side, until the shortest dataset ends.

        Args:
            datasets: a nested structure of datasets, for example a tuple, or the datasets one by one.

        Raises:
            TypeError: something in it is not a dataset.

        Example:
            >>> from simdist.data import Dataset
            >>> [(int(a), int(b)) for a, b in Dataset.zip((Dataset.range(3), Dataset.range(5, 9)))]
            [(0, 5), (1, 6), (2, 7)]
        """
        given = datasets[0] if len(datasets) == 1 else datasets
        leaves, outer = tree_flatten(given)
        if not leaves:
            raise InvalidArgumentError("zip was given no datasets; expected a tuple or dict of at least one")
        nodes: list[Node] = []
        options = Options()
        for leaf in leaves:
            if not isinstance(leaf, Pipeline):
                raise TypeError(f"zip was given {type(leaf).__name__}; expected datasets; wrap it in from_tensor_slices")
            nodes.append(leaf.node)
            options = options.merge(leaf.options())
        return cls(joining.Zip(tuple(nodes), outer), options)
