"""What a widget does after each cell of a notebook: Python may have moved its session, of which the widget was not notified.

Outside of IPython no cell ends, and nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

__all__ = ["after_each_cell"]


def after_each_cell(method: Callable[[], None]) -> None:
    """Call a method after each cell, as long as there is its object, which is not held alive.

    Args:
        method: a bound method without arguments.

    Example:
        >>> class Bell:
        ...     def ring(self) -> None: ...
        >>> after_each_cell(Bell().ring)  # outside of a notebook: nothing to wait for
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    held = WeakMethod(method)

    def call(*_: Any) -> None:
        found = held()
        if found is None:
            shell.events.unregister("post_run_cell", call)
        else:
            found()

    shell.events.register("post_run_cell", call)
