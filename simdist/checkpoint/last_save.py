"""What has become of the last save, as mains know it that save together: the chief writes, and only it sees an error.

The other mains do not wait for the disk of the chief. They count a checkpoint as written when its values are collected, and take that back
where the chief says that it has failed: with the next call in which all of them take part.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.checkpoint.mains import Mains
from simdist.runtime.wire.failures import error_of, plain_error

__all__ = ["LastSave"]


class LastSave:
    """The last save, until all mains know what has become of it.

    Args:
        mains: that have saved.
        path: of the checkpoint.
        take_back: lets this main count as if nothing had been saved.
    """

    def __init__(self, mains: Mains, path: str, take_back: Callable[[], object]) -> None:
        self.mains = mains
        self.path = path
        self.take_back = take_back
        self.has_failed = False

    def fail(self) -> None:
        """This main knows that there is no checkpoint."""
        if not self.has_failed:
            self.has_failed = True
            self.take_back()

    def is_over(self, is_over_here: bool, error: Exception | None) -> bool:
        """Let all mains know what the chief knows; every main has to ask.

        Args:
            is_over_here: whether this main does not write any more.
            error: what the chief ran into, and has not raised yet.

        Returns:
            Whether the chief does not write any more.

        Raises:
            Exception: as the error of the chief, in the other mains.
        """
        mine = [is_over_here, self.has_failed, None if error is None else list(plain_error(error))]
        is_over, has_failed, failure = self.mains.of_chief(mine)
        if has_failed:
            self.fail()
        if failure is not None and error is None:
            name, text, notes = failure
            raise error_of((name, text, tuple(notes)))
        return bool(is_over)
