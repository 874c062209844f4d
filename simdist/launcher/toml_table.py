"""`TomlTable`: a table of a TOML file, whose values are asked for by key and type.

Invariant: every error names the file, the key with the tables in which it stands, what was found, and what was expected.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from simdist.arguments import END_S
from simdist.errors import InvalidArgumentError, NotFoundError, did_you_mean

__all__ = ["TomlTable", "read_toml"]

Value = TypeVar("Value")


class TomlTable:
    """A table of a file.

    Args:
        file: the name of the file, for error messages.
        name: the name of the table, such as "network"; empty for the file itself.
        values: what stands in it.

    Example:
        >>> table = TomlTable("cluster.toml", "", {"seed": "7"})
        >>> table.text("seed")
        '7'
        >>> table.whole_number("seed", 0)
        Traceback (most recent call last):
        ...
        simdist.errors.InvalidArgumentError: cluster.toml: seed is '7'; expected a whole number.
    """

    def __init__(self, file: str, name: str, values: dict[str, Any]) -> None:
        self.file = file
        self.name = name
        self.values = values

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def require_known(self, known: Iterable[str]) -> None:
        """Refuse keys that are not known.

        Raises:
            InvalidArgumentError: there is one.
        """
        known = list(known)
        for key in self.values:
            if key not in known:
                where = f" in [{self.name}]" if self.name else ""
                raise InvalidArgumentError(f"{self.file}: the key {key!r}{where} is not known. {did_you_mean(key, known)}")

    def path_of(self, key: str) -> str:
        """The name of a key with the tables in which it stands."""
        return f"{self.name}.{key}" if self.name else key

    def wrong(self, key: str, expected: str) -> InvalidArgumentError:
        """The error of a value that is not what was expected."""
        return InvalidArgumentError(f"{self.file}: {self.path_of(key)} is {self.values[key]!r:.200}; expected {expected}.")

    def refuse(self, key: str, reason: object) -> InvalidArgumentError:
        """The error of a value that was refused by what it is for."""
        return InvalidArgumentError(f"{self.file}: {self.path_of(key)}: {reason}")

    def text(self, key: str, otherwise: str | None = None) -> str | None:
        """Text, or `otherwise` where the key is missing.

        Raises:
            InvalidArgumentError: it is something else, or empty.
        """
        value = self.values.get(key, otherwise)
        if value is not otherwise and (not isinstance(value, str) or not value):
            raise self.wrong(key, "text")
        return value

    def word(self, key: str, otherwise: str, known: Sequence[str]) -> str:
        """One of some words, or `otherwise` where the key is missing.

        Raises:
            InvalidArgumentError: it is something else.
        """
        value = self.values.get(key, otherwise)
        if not isinstance(value, str) or value not in known:
            raise self.wrong(key, f"one of {', '.join(map(repr, known))}")
        return value

    def whole_number(self, key: str, otherwise: int) -> int:
        """A whole number, or `otherwise` where the key is missing.

        Raises:
            InvalidArgumentError: it is something else.
        """
        value = self.values.get(key, otherwise)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, "a whole number")
        return value

    def seconds(self, key: str, otherwise: Value) -> float | Value:
        """Virtual seconds from 0 on, or `otherwise` where the key is missing.

        Raises:
            InvalidArgumentError: it is something else.
        """
        if key not in self.values:
            return otherwise
        value = self.values[key]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.0 <= value < END_S:
            raise self.wrong(key, f"a number of seconds, 0 or more, and less than {END_S:g}")
        return float(value)

    def table(self, key: str) -> TomlTable:
        """The table of a key; an empty one where the key is missing.

        Raises:
            InvalidArgumentError: it is no table.
        """
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"a table, written as [{self.path_of(key)}]")
        return TomlTable(self.file, self.path_of(key), cast("dict[str, Any]", value))

    def tables(self, key: str) -> list[TomlTable]:
        """The tables of a list, in order; none where the key is missing.

        Raises:
            InvalidArgumentError: it is no list of tables.
        """
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in cast("list[object]", value)):
            raise self.wrong(key, f"a list of tables, each written as [[{self.path_of(key)}]]")
        items = cast("list[dict[str, Any]]", value)
        return [TomlTable(self.file, f"{self.path_of(key)}[{number}]", item) for number, item in enumerate(items)]

    def build(self, key: str, make: Callable[[], Value]) -> Value:
        """What `make` returns; an error of its own names the file and the key.

        Raises:
            InvalidArgumentError: it refuses the value of the key.
        """
        try:
            return make()
        except (TypeError, ValueError, LookupError) as error:
            raise self.refuse(key, error) from error


def read_toml(path: Path) -> TomlTable:
    """The outermost table of a file.

    Raises:
        NotFoundError: there is no such file, or it cannot be read.
        InvalidArgumentError: it is not TOML.
    """
    try:
        return TomlTable(str(path), "", tomllib.loads(path.read_bytes().decode()))
    except IsADirectoryError:
        raise NotFoundError(
            f"{path} is a folder. Give the path of a TOML file that describes a cluster, such as {path / 'cluster.toml'}."
        ) from None
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path} that describes a cluster. Give the path of a TOML file.") from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}. Give the path of a TOML file that describes a cluster.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path} is not TOML: {error}. Text stands in quotes, and a table begins with its [name].") from error
