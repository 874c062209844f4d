"""Work that goes on beside a program, such as a checkpoint that is being written: the end of the cluster would lose it without a word."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

__all__ = ["Unfinished", "warn_of_unfinished"]


class Unfinished(Protocol):
    """Work that was begun, and that a program counts on."""

    def lost(self) -> str | None:
        """What would be lost if the cluster ended now, and what to do against it; None: nothing."""
        ...


def warn_of_unfinished(works: Sequence[Unfinished]) -> None:
    """Say what the end of a cluster loses."""
    for work in works:
        text = work.lost()
        if text is not None:
            warnings.warn(text, stacklevel=4)
