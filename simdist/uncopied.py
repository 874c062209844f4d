"""Objects that live in this process alone: they are neither pickled nor copied, and say what to do instead."""

from __future__ import annotations

from typing import ClassVar, NoReturn

__all__ = ["Uncopied"]


class Uncopied:
    """What can be neither pickled nor copied. A copy would share its state with the first one, without a word.

    Args:
        instead: what to do instead, as a sentence; a class gives it where it names its bases.
        why: why not, as a sentence; default: all that a cluster has lives in this process.

    Example:
        >>> import copy
        >>> class Clock(Uncopied, instead="Make another one."):
        ...     pass
        >>> copy.copy(Clock())
        Traceback (most recent call last):
        TypeError: A Clock cannot be pickled or copied: a cluster lives in this process, with all that it has. Make another one.
    """

    _instead: ClassVar[str]
    _why: ClassVar[str] = "a cluster lives in this process, with all that it has."

    def __init_subclass__(cls, instead: str = "", why: str = "", **others: object) -> None:
        super().__init_subclass__(**others)
        if instead:
            cls._instead = instead
        if why:
            cls._why = why

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"A {type(self).__name__} cannot be pickled or copied: {self._why} {self._instead}")
