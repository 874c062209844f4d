"""Saved positions of a distributed input: one for each source that it reads, checked before they are used.

Taught in lesson 08.
"""

from __future__ import annotations

from typing import cast

from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError

__all__ = ["part_in", "sources_in"]


def sources_in(position: Position, count: int) -> list[Position]:
    """The positions of the sources in a saved position.

    Args:
        position: what `state_dict` of an input's iterator returned.
        count: sources of the input that is to go there.

    Raises:
        InvalidArgumentError: there are not as many.

    Example:
        >>> sources_in({"sources": [{"consumed": 1, "shuffles": []}]}, count=1)
        [{'consumed': 1, 'shuffles': []}]
    """
    sources: object = position.get("sources")
    found = cast("list[Position]", sources) if isinstance(sources, list) else []
    if len(found) != count:
        raise InvalidArgumentError(
            f"not a saved position of this input, which has {count} source(s): {position!r}; "
            "expected what state_dict() returned for the same number of workers, and the same policy"
        )
    return found


def part_in(position: Position) -> tuple[int, int, int | None]:
    """Where a source whose batches are cut stands: parts taken of the present batch, steps before it, rows of a full batch.

    Raises:
        InvalidArgumentError: it is the position of something else.

    Example:
        >>> part_in({"part": 1, "step": 4, "batch_size": None})
        (1, 4, None)
    """
    try:
        size = position["batch_size"]
        return int(position["part"]), int(position["step"]), None if size is None else int(size)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"not a saved position of cut batches: {position!r}; expected what state_dict() returned") from error
