"""An object with a state of plain data, as users write them."""

from __future__ import annotations

from typing import Any

__all__ = ["Kept"]


class Kept:
    """Plain data with a place in a checkpoint.

    Args:
        state: what is saved.
        refuses: a state that it raises ValueError for, after it has begun to take it over.
    """

    def __init__(self, state: Any, refuses: Any = ...) -> None:
        self.state = state
        self.refuses = refuses

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state
        if state == self.refuses:
            raise ValueError("not this one")
