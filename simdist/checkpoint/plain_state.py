"""Plain data, as JSON knows it: what an object's ``state_dict()`` may hold, so that it is the same when it is read again.

Taught in lesson 09.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.saved_parts import SavedState

__all__ = ["plain"]


def plain(state: SavedState, where: str) -> SavedState:
    """A copy of plain data: numbers, text, truth values and None; lists and dicts of these. Tuples become lists, and numbers of numpy
    those of Python; an array becomes lists.

    Args:
        state: what is checked.
        where: it is in a checkpoint, for messages.

    Raises:
        InvalidArgumentError: it holds something else.

    Example:
        >>> plain({"epoch": np.int64(3), "best": (0.5, None)}, "training")
        {'epoch': 3, 'best': [0.5, None]}
    """
    if state is None or isinstance(state, (bool, int, float, str)):
        return state
    if isinstance(state, (np.generic, np.ndarray)) and state.dtype.kind in "biuf":
        return cast("SavedState", state).tolist()
    if isinstance(state, (list, tuple)):
        return [plain(one, f"{where}[{number}]") for number, one in enumerate(cast("list[SavedState]", state))]
    if not isinstance(state, dict):
        raise InvalidArgumentError(
            f"The state of {where} is a {type(state).__name__}; expected what JSON knows: numbers, text, lists and dicts. Let state_dict() "
            "give these, or keep arrays in an sd.Variable."
        )
    found = cast("dict[SavedState, SavedState]", state)
    odd = [key for key in found if not isinstance(key, str)]
    if odd:
        raise InvalidArgumentError(
            f"The state of {where} has the key {odd[0]!r}, which would be read as text. Let state_dict() give dicts whose keys are text."
        )
    return {key: plain(value, f"{where}[{key!r}]") for key, value in found.items()}
