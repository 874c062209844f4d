"""What Keras keeps for the whole process, or for a task that has a state of its own: replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keras.src.backend.common import global_state

__all__ = ["global_attribute"]


@contextmanager
def global_attribute(name: str, value: object) -> Iterator[None]:
    """Inside, an attribute of Keras' global state has this value.

    Example:
        >>> with global_attribute("simdist_example", 1):
        ...     global_state.get_global_attribute("simdist_example")
        1
        >>> global_state.get_global_attribute("simdist_example") is None
        True
    """
    before = global_state.get_global_attribute(name)
    global_state.set_global_attribute(name, value)
    try:
        yield
    finally:
        global_state.set_global_attribute(name, before)
