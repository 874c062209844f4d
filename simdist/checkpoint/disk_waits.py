"""A wait for a disk: a program that reads or writes a file goes on when the disk has done it, or raises what it failed with.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.runtime.base import Engine

__all__ = ["wait_for_disk"]


def wait_for_disk(engine: Engine, what: str, begin: Callable[[Callable[[BaseException | None], None]], None]) -> None:
    """Wait until a disk has done its work.

    Args:
        engine: of the disk.
        what: is waited for, for error messages.
        begin: lets the disk begin; of what it calls at the end, with its error or None.

    Raises:
        BaseException: what the disk failed with.
    """
    over, errors = engine.promise(), list[BaseException]()

    def ended(error: BaseException | None) -> None:
        errors.extend([] if error is None else [error])
        over.open()

    begin(ended)
    over.wait(what)
    if errors:
        raise errors[0]
