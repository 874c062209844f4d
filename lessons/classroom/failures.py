"""An error that a lesson shows on purpose: as a sentence in place of a traceback."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator

from classroom.values import wrapped

__all__ = ["error_shown"]

CELL = re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py:(\d+)")  # the file that stands for a cell; its name differs from run to run


@contextlib.contextmanager
def error_shown() -> Iterator[None]:
    """Print the error that ends a `with` block, with its notes, and go on after the block.

    What `sd.debug()` prints on standard error is a note of the error as well, so it is not printed twice.

    Example:
        >>> with error_shown():
        ...     raise ValueError("on purpose")
        ValueError: on purpose
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    except Exception as error:
        print(wrapped(f"{type(error).__name__}: {error}"))
        for note in getattr(error, "__notes__", ()):
            print(wrapped(CELL.sub(r"line \1 of the cell", note)))
