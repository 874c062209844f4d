"""The parts of a file that other tasks hold, on their way to the task that writes it: side by side, and all or none.

A part that is lost, late or held by a task that dies ends the whole: nothing is written. The death of a holder is known at once here, as
the writer has to give up a file that can never be whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from simdist.errors import UnavailableError
from simdist.runtime.simulated.copies import Copy
from simdist.simulation.kernel import Clock

__all__ = ["Copying", "Gathering"]

Copying: TypeAlias = Callable[[str, str, float, str, Callable[[BaseException | None], object]], Copy]
"""Copies bytes from one device to another, as `World.copy`."""


class Gathering:
    """The parts of one file on their way.

    Args:
        clock: the cluster's.
        copy: sends one part.
        target: the task that writes the file.
        parts: bytes by the name of another task that holds them.
        what: is gathered, in words.
        ended: is called once, later, with None when all have arrived, or with the error of the first that did not.
    """

    def __init__(
        self, clock: Clock, copy: Copying, target: str, parts: Mapping[str, int], what: str, ended: Callable[[BaseException | None], object]
    ) -> None:
        self.clock = clock
        self.holders = tuple(parts)
        self.what = what
        self.ended = ended
        self.is_open = True
        self._copies: dict[str, Copy] = {}
        self._left = len(parts)
        for holder, size_bytes in parts.items():
            try:
                self._copies[holder] = copy(holder, target, size_bytes, what, self._arrived)
            except UnavailableError as error:
                self.clock.after(0.0, self.end, error)
                break

    def holder_died(self, holder: str) -> None:
        """A task that holds a part has died."""
        if holder in self.holders:
            self.end(UnavailableError(f"{holder} died while {self.what} were gathered from it. Write again when it is back."))

    def end(self, error: BaseException | None) -> None:
        """End it, with an error where something is missing."""
        if not self.is_open:
            return
        self.is_open = False
        for copy in self._copies.values():
            if copy.open:
                copy.drop()
        self.ended(error)

    def _arrived(self, error: BaseException | None) -> None:
        self._left -= 1
        if error is not None or not self._left:
            self.end(error)
