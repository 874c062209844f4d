"""How a dataset is made: of arrays, of numbers, of any iterable, of files, or of other datasets side by side.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Self

import numpy as np

from simdist.arguments import flag, listed, optional_flag, whole_number
from simdist.data import joining, reorder
from simdist.data.choosing import Choose, Sample
from simdist.data.files import FileNames, FileReader, FromFiles, Paths, lines_of
from simdist.data.folding import Scan
from simdist.data.generators import FromGenerator, signature_of
from simdist.data.leaves import Element, Tree, as_leaf, flatten, structure_of, tree_flatten, unflatten
from simdist.data.nodes import Node
from simdist.data.options import Options
from simdist.data.pipeline import Pipeline
from simdist.data.sources import FromIterable, FromTable
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError

__all__ = ["DatasetCreation"]

LARGEST_END = (1 << 62) - 1  # so that the length of a range is one of Python's
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
        if not 1 <= len(args) <= 3:
            raise TypeError(f"range was given {len(args)} numbers; expected range(stop), range(start, stop) or range(start, stop, step)")
        ends = [whole_number(number, "a number of range", -LARGEST_END, LARGEST_END) for number in args]
        if len(ends) == 3 and not ends[2]:
            raise InvalidArgumentError(f"range{tuple(ends)} has the step 0; expected another one")
        numbers = range(*ends)
        label = f"Dataset.range({', '.join(map(str, ends))})"
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
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Element]],
        output_types: Tree = None,
        output_shapes: Tree = None,
        args: Sequence[Element] = (),
        output_signature: Tree = None,
    ) -> Self:
        """The elements that a generator function gives, each checked against a signature.

        Args:
            generator: returns an iterable; it is called for each pass.
            output_types: not here; see `output_signature`.
            output_shapes: not here; see `output_signature`.
            args: arrays and numbers with which the function is called.
            output_signature: nested specs, for example ``sd.ArraySpec((None, 10), "float32")``, whose None is an axis that varies; numbers
                get its dtype where that changes none of them. None: the first element tells, as of `from_iterable`.

        Raises:
            InvalidArgumentError: an element does not fit the signature, when it is met.

        Example:
            >>> from simdist.data import ArraySpec, Dataset
            >>> def numbers(count):
            ...     yield from range(int(count))
            >>> list(Dataset.from_generator(numbers, args=(2,), output_signature=ArraySpec((), "float32")))
            [array(0., dtype=float32), array(1., dtype=float32)]
        """
        if output_types is not None or output_shapes is not None:
            raise InvalidArgumentError(
                "from_generator was given output_types or output_shapes; expected output_signature, nested specs such as "
                "sd.ArraySpec((None, 10), 'float32')"
            )
        if not callable(generator):
            raise TypeError(
                f"from_generator was given {type(generator).__name__}; expected a function that returns an iterable; use from_iterable for "
                "an iterable itself"
            )
        given = arguments_of(args)
        if output_signature is None:
            return cls(FromIterable(partial(generator, *given)))
        return cls(FromGenerator(generator, given, signature_of(output_signature)))

    @classmethod
    def counter(cls, start: int = 0, step: int = 1) -> Self:
        """Integers without an end, from `start` on.

        Example:
            >>> from simdist.data import Dataset
            >>> [int(x) for x in Dataset.counter(2, 3).take(3)]
            [2, 5, 8]
        """
        first, size = whole_number(start, "start"), whole_number(step, "step")
        blank = FromTable(Table.from_leaves([np.zeros(1, np.int32)], structure_of(0)), "Dataset.counter()")
        return cls(Scan(reorder.Repeat(blank, None), first, lambda number, _: (number + size, number)))

    @classmethod
    def choose_from_datasets(cls, datasets: Sequence[Pipeline], choice_dataset: Pipeline, stop_on_empty_dataset: bool = True) -> Self:
        """Elements of several datasets, in the order that a dataset of their numbers says.

        Args:
            datasets: with elements of one structure, and equal dtypes.
            choice_dataset: integers from 0 to the number of datasets, less one.
            stop_on_empty_dataset: end where a dataset is chosen that has no more elements; False passes it over.

        Raises:
            InvalidArgumentError: no datasets, or elements that differ; a number of none of them, when it is met.

        Example:
            >>> from simdist.data import Dataset
            >>> low, high = Dataset.range(3), Dataset.range(10, 13)
            >>> [int(x) for x in Dataset.choose_from_datasets([low, high], Dataset.from_tensor_slices([1, 0, 1]))]
            [10, 0, 11]
        """
        nodes, options = nodes_of(datasets, "choose_from_datasets")
        (choices,), _ = nodes_of([choice_dataset], "choose_from_datasets")
        stops = flag(stop_on_empty_dataset, "stop_on_empty_dataset")
        return cls(Choose(tuple(nodes), choices, stops), options)

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Pipeline],
        weights: Sequence[float] | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Elements of several datasets by chance; the same choices in each pass.

        Args:
            datasets: with elements of one structure, and equal dtypes.
            weights: a number from 0 for each of them, not all 0; None is the same for all.
            seed: of the choices; None is 0.
            stop_on_empty_dataset: end where a dataset is chosen that has no more elements; False goes on with the others.
            rerandomize_each_iteration: False or None; other choices in each pass are not here.

        Raises:
            InvalidArgumentError: no datasets, elements that differ, or weights that are none.

        Example:
            >>> from simdist.data import Dataset
            >>> mixed = Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(10, 13)], seed=1)
            >>> sorted(int(x) for x in mixed)
            [0, 1, 2, 10, 11, 12]
        """
        if optional_flag(rerandomize_each_iteration, "rerandomize_each_iteration"):
            raise InvalidArgumentError(
                "sample_from_datasets was given rerandomize_each_iteration=True; expected False: the choices are the same in each pass; "
                "shuffle the result for another order"
            )
        nodes, options = nodes_of(datasets, "sample_from_datasets")
        return cls(Sample(tuple(nodes), weights, seed, flag(stop_on_empty_dataset, "stop_on_empty_dataset")), options)

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
        """Elements side by side, until the shortest dataset ends; those behind it are not asked for one more.

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
        nodes, options = nodes_of(leaves, "zip")
        return cls(joining.Zip(tuple(nodes), outer), options)


def arguments_of(values: Sequence[Element]) -> tuple[Element, ...]:
    """Arguments of a function of the user: nested arrays, and scalars where they have no axes."""
    given = tuple(listed(values, "args", "arguments"))
    if not given:
        return ()
    leaves, structure = flatten(given, "args")
    return unflatten(structure, [leaf if leaf.ndim else leaf[()] for leaf in leaves])


def nodes_of(datasets: Sequence[Pipeline], name: str) -> tuple[list[Node], Options]:
    """The last steps of some datasets, and the options of all of them.

    Raises:
        TypeError: something is no dataset.
        InvalidArgumentError: there are none.
    """
    given = listed(datasets, f"what {name} was given", "datasets")
    if not given:
        raise InvalidArgumentError(f"{name} was given no datasets; expected at least one")
    nodes: list[Node] = []
    options = Options()
    for dataset in given:
        if not isinstance(dataset, Pipeline):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{name} was given {type(dataset).__name__}; expected datasets; wrap it in from_tensor_slices")
        nodes.append(dataset.node)
        options = options.merge(dataset.options())
    return nodes, options
