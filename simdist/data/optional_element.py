"""What `get_next_as_optional` gives: the next element, or the news that there is none, as a value; and `get_next`, which makes it an error.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Iterator

from simdist.data.leaves import Element
from simdist.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["OptionalElement", "present_element"]


def present_element(iterator: Iterator[Element]) -> Element:
    """The next element of an iterator.

    Raises:
        OutOfRangeError: there is none left; `next` raises Python's StopIteration instead.
    """
    try:
        return next(iterator)
    except StopIteration as error:
        raise OutOfRangeError("The dataset has run out. Ask for fewer elements, or end it with .repeat().") from error


class OptionalElement:
    """An element that may be missing.

    Example:
        >>> from simdist.data import Dataset
        >>> iterator = iter(Dataset.range(1))
        >>> iterator.get_next_as_optional().get_value().item(), iterator.get_next_as_optional().has_value()
        (0, False)
    """

    def __init__(self, *value: Element) -> None:
        self._value = value

    @classmethod
    def of_next(cls, iterator: Iterator[Element]) -> OptionalElement:
        """The next element of an iterator, if there is one."""
        try:
            return cls(next(iterator))
        except StopIteration:
            return cls()

    def has_value(self) -> bool:
        """Whether there is an element."""
        return bool(self._value)

    def get_value(self) -> Element:
        """The element.

        Raises:
            InvalidArgumentError: there is none; ask `has_value` first.
        """
        if not self._value:
            raise InvalidArgumentError("The dataset has run out, so this optional has no value. Ask has_value() before get_value().")
        return self._value[0]

    def __repr__(self) -> str:
        return f"OptionalElement({', '.join(map(repr, self._value))})"
