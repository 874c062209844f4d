"""Elements that lie in files: each file is opened when its first element is asked for, and read once.

The names of the files are a dataset of their own, so that they can be shuffled; sharding by files (`simdist.input`) shares
out the names. What a file holds is remembered by its reader, which all shards of a dataset have in common: a later
epoch, or another worker of the same process, does not read it again.

Invariant: a file is read at most once, and only if an element of it is asked for.

Taught in lesson 08.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from simdist.arguments import listed, shown
from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array, Element, Structure, flatten, has_shape, spec_of, structure_of
from simdist.data.nodes import UNKNOWN, Node, Pass, Spec, single_rows
from simdist.data.sources import FromIterable, FromTable, probed_element
from simdist.data.streams import Pull
from simdist.data.table import Table
from simdist.errors import InvalidArgumentError, NotFoundError

__all__ = ["FileNames", "FileReader", "FromFiles", "Paths", "lines_of"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class FileNames(FromTable):
    """The names of files, in order: one string per element."""

    def __init__(self, paths: Paths) -> None:
        names = matching(paths)
        table = Table.from_leaves([np.array(names)], structure_of(""))
        super().__init__(table, f"Dataset.list_files({len(names)} files)")


class FileReader:
    """Reads each file once.

    Args:
        read: from a path to the elements of that file: arrays, whose rows are the elements, or an iterable.
    """

    def __init__(self, read: Callable[[str], Element | Iterable[Element]]) -> None:
        if not callable(read):
            raise TypeError(f"read is {read!r}; expected a function from a path to the elements of the file, or None for lines of text")
        self.read = read
        self.kept: dict[str, list[Batch]] = {}

    def elements(self, path: str) -> list[Batch]:
        """The elements of one file."""
        if path not in self.kept:
            self.kept[path] = elements_of(self.read(path), path)
        return self.kept[path]


class FromFiles(Node):
    """The elements of file after file."""

    def __init__(self, names: Node, reader: FileReader) -> None:
        self.names, self.reader = names, reader
        self.sources = (names,)
        self.label = "from_files()"

    @property
    def knows_spec(self) -> bool:
        return False

    def over(self, sources: tuple[Node, ...]) -> Node:
        return FromFiles(sources[0], self.reader)

    def open(self, one_pass: Pass) -> Pull:
        names = self.names.open_elements(one_pass)
        structure: Structure | None = None
        rest: list[Batch] = []
        at = 0

        def pull(limit: int) -> Array:
            nonlocal structure, rest, at
            while at == len(rest) and len(chunk := names(1)):
                path = str(chunk[0].leaves()[0])
                rest, at = self.reader.elements(path), 0
                if rest:
                    structure = structure or rest[0].structure
                    require_structure(structure, rest[0].structure, path)
            start, at = at, min(at + limit, len(rest))
            return streams.as_objects(rest[start:at])

        return pull

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self) -> Spec:
        batch = probed_element(self)
        return batch.structure, tuple(map(spec_of, batch.leaves()))


def matching(paths: Paths) -> list[str]:
    """The files that are meant: each given path as it is, each pattern as what it matches, sorted."""
    given: list[object] = [paths] if isinstance(paths, (str, os.PathLike)) else listed(paths, "paths", "paths of files")
    names: list[str] = []
    for path in given:
        name = os.fspath(cast("str", path)) if isinstance(path, (str, os.PathLike)) else None
        if not isinstance(name, str) or not name or "\0" in name:
            raise TypeError(f"a path is {shown(path)}; expected the path of a file, as text")
        is_pattern = glob.has_magic(name) and not Path(name).exists()
        names += sorted(glob.glob(name, recursive=True)) if is_pattern else [name]  # noqa: PTH207  # Path.glob refuses absolute patterns
    if not names:
        raise NotFoundError(f"no file matches {paths!r}; expected at least one; check the pattern and the folder it starts from")
    return names


def lines_of(path: str) -> Array:
    """The lines of a text file in UTF-8, without their ends; a column of strings.

    Raises:
        NotFoundError: there is no such file.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            return np.array([line.rstrip("\n") for line in file], dtype=np.str_)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {path!r}; expected a text file; check the paths of from_files") from error


def elements_of(content: Element | Iterable[Element], path: str) -> list[Batch]:
    """What a `read` function returned, as elements: the rows of arrays, or the items of an iterable."""
    if not isinstance(content, (tuple, dict)) and not has_shape(content) and isinstance(content, Iterable):
        pull = FromIterable(content).open(Pass())  # pyright: ignore[reportUnknownArgumentType]
        return list(streams.drained(pull))
    leaves, structure = flatten(content, f"what was read from {path!r}")
    if len({leaf.shape[:1] for leaf in leaves}) > 1 or not leaves[0].ndim:
        raise InvalidArgumentError(
            f"what was read from {path!r} has components of shapes {[leaf.shape for leaf in leaves]}; "
            "expected equal first dimensions, one row per element; return an iterable of elements otherwise"
        )
    table = Table.from_leaves(leaves, structure)
    return single_rows(table, np.arange(table.num_rows, dtype=np.int32))


def require_structure(first: Structure, found: Structure, path: str) -> None:
    if first != found:
        raise InvalidArgumentError(
            f"the elements of {path!r} have the structure {found}, those of the files before it {first}; "
            "expected one structure; return the same nesting for every file"
        )
