"""Facts of spans as columns: what a million spans say about themselves in a few flat arrays.

Facts that have the same names and the same types of values share a *schema*, and each schema has a table: an array of
integers or of floats, codes of texts, or, for values of any other type, a list that keeps them as they are. A span's
row keeps the number of its schema and its place in that schema's table; schema 0 is "no facts".

Invariants: what comes out equals what went in, and has the same type; a value is never converted. Facts of one name
may have a different type in every span.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from simdist.trace.records import Facts, Names

__all__ = ["FactColumns"]

Values: TypeAlias = list[Any]  # of one fact, row by row; within a table all of the type that its schema names
Schema: TypeAlias = tuple[tuple[str, ...], tuple[type, ...]]  # names, and the type of each value

ARRAY_CODES = {int: "q", float: "d", str: "i"}  # values of other types are kept in lists


class FactColumns(Mapping[int, Facts]):
    """Facts by row number; rows without facts are no keys.

    Example:
        >>> facts = FactColumns()
        >>> facts.extend([{"bytes": 8}, {}, {"bytes": 0.5}], np.zeros(3, np.int32))
        >>> dict(facts)
        {0: {'bytes': 8}, 2: {'bytes': 0.5}}
        >>> rows, values = facts.values_of("bytes")
        >>> rows.tolist(), values
        ([0, 2], [8, 0.5])
    """

    def __init__(self) -> None:
        self.schema = array("i")
        self.position = array("i")
        self.texts = Names()
        self.tables: list[_Table] = [_Table(((), ()), self.texts)]
        self.numbers: dict[Schema, int] = {}

    def extend(self, facts: Sequence[Facts], kind: np.ndarray) -> None:
        """Append rows; rows of one `kind` (int32 codes of shape (n,)) are likely to have facts of the same names."""
        schema = np.zeros(len(facts), np.int32)
        position = np.zeros(len(facts), np.int32)
        sizes = np.fromiter(map(len, facts), np.int64, len(facts))
        group = np.where(sizes > 0, kind * (sizes.max(initial=0) + 1) + sizes, -1)
        for number in np.unique(group[group >= 0]).tolist():
            rows = np.flatnonzero(group == number)
            for key, chosen, columns in _by_schema(rows, list(map(facts.__getitem__, rows.tolist()))):
                schema[chosen], first = self._append(key, columns)
                position[chosen] = np.arange(first, first + len(chosen))
        self.schema.frombytes(schema.tobytes())
        self.position.frombytes(position.tobytes())

    def _append(self, key: Schema, columns: list[Values]) -> tuple[int, int]:
        """Write rows into the table of a schema; returns its number and the place of the first of them."""
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.tables)
            self.tables.append(_Table(key, self.texts))
        first = self.tables[number].length
        self.tables[number].extend(columns)
        return number, first

    def __getitem__(self, row: int) -> Facts:
        if not 0 <= row < len(self.schema) or not self.schema[row]:
            raise KeyError(row)
        return self.tables[self.schema[row]].row(self.position[row])

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(np.array(self.schema, np.int32)).tolist())

    def __len__(self) -> int:
        return sum(table.length for table in self.tables)

    def values_of(self, name: str) -> tuple[np.ndarray, Values]:
        """The rows that have a fact of this name, ascending (int64 of shape (n,)), and its n values."""
        schema, position = np.array(self.schema, np.int32), np.array(self.position, np.int32)
        rows: list[np.ndarray] = [np.zeros(0, np.int64)]
        values: Values = []
        for number, table in enumerate(self.tables):
            if name in table.names:
                rows.append(np.flatnonzero(schema == number))
                column = table.column(name)
                values += [column[index] for index in position[rows[-1]].tolist()]
        found = np.concatenate(rows)
        order = np.argsort(found, kind="stable")
        return found[order], [values[index] for index in order.tolist()]


def _by_schema(rows: np.ndarray, facts: list[Facts]) -> Iterator[tuple[Schema, np.ndarray, list[Values]]]:
    """Facts of equal length, split into those with equal names and types: (schema, their rows, their columns)."""
    names = tuple(facts[0])
    try:
        columns = [list(map(itemgetter(name), facts)) for name in names]
    except KeyError:
        columns = []
    types = [set(map(type, column)) for column in columns]
    if columns and all(len(found) == 1 for found in types):
        yield (names, tuple(found.pop() for found in types)), rows, columns
        return
    members: dict[Schema, list[int]] = {}
    for index, fact in enumerate(facts):
        members.setdefault((tuple(fact), tuple(map(type, fact.values()))), []).append(index)
    for schema, chosen in members.items():
        yield schema, rows[chosen], [[facts[index][name] for index in chosen] for name in schema[0]]


class _Table:
    """The facts of one schema: a column for each name."""

    def __init__(self, schema: Schema, texts: Names) -> None:
        self.names, self.types = schema
        self.texts = texts
        self.length = 0
        self.columns: list[array[Any] | Values] = [array(ARRAY_CODES[kind]) if kind in ARRAY_CODES else [] for kind in self.types]

    def extend(self, columns: list[Values]) -> None:
        for index, (kind, values) in enumerate(zip(self.types, columns, strict=True)):
            column = self.columns[index]
            if kind is str and isinstance(column, array):
                column.frombytes(self.texts.encode(values)[0].tobytes())
            elif isinstance(column, list):
                column += values
            else:
                try:
                    column.extend(array(column.typecode, values))
                except OverflowError:  # an int too large for an array: from here on this column is a list
                    self.columns[index] = column.tolist() + values
        self.length += len(columns[0])

    def row(self, position: int) -> Facts:
        texts = self.texts.texts
        cells = zip(self.names, self.types, self.columns, strict=True)
        return {name: texts[column[position]] if kind is str else column[position] for name, kind, column in cells}

    def column(self, name: str) -> Values:
        index = self.names.index(name)
        values = list(self.columns[index])
        return [self.texts.texts[code] for code in values] if self.types[index] is str else values
