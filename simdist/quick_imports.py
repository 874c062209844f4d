"""Imports of large libraries, with Python's garbage collector at rest.

JAX and Keras make hundreds of thousands of objects that stay for as long as the process. While they are made the collector searches them
again and again, which takes a fifth of the time of the import.

Invariant: the collector is as it was before, also after an import that has failed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collector"]


@contextmanager
def without_collector() -> Iterator[None]:
    """Around imports: nothing of what they make is garbage.

    Example:
        >>> import gc
        >>> before = gc.isenabled()
        >>> with without_collector():
        ...     print(gc.isenabled())
        False
        >>> gc.isenabled() == before
        True
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
