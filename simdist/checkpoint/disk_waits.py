"""A wait for disks: a program that reads or writes files goes on when the disks have done it, or raises what they failed with.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from simdist.runtime.base import Engine

__all__ = ["Begin", "wait_for_disk", "wait_for_disks"]

Begin: TypeAlias = Callable[[Callable[[BaseException | None], None]], None]
"""Lets a disk begin; of what it calls at the end, with its error or None."""


def wait_for_disk(engine: Engine, what: str, begin: Begin) -> None:
    """Wait until a disk has done its work; as `wait_for_disks`."""
    wait_for_disks(engine, what, [begin])


def wait_for_disks(engine: Engine, what: str, begins: Sequence[Begin]) -> None:
    """Wait until disks have done their work, side by side.

    Args:
        engine: of the disks.
        what: is waited for, for error messages.
        begins: one for each work; there is one at least.

    Raises:
        BaseException: what a disk failed with; of several the first.
    """
    over, errors, left = engine.promise(), list[BaseException](), [len(begins)]

    def ended(error: BaseException | None) -> None:
        errors.extend([] if error is None else [error])
        left[0] -= 1
        if not left[0]:
            over.open()

    for begin in begins:
        begin(ended)
    over.wait(what)
    if errors:
        raise errors[0]
