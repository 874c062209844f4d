"""Positions in a pass over a dataset, as plain numbers: what checkpoints of an input hold.

A position is what `state_dict` of an iterator tells. It is three facts: how many elements were handed out, in which
iteration each shuffle began, and with which seed. Elements that could not be made count, and are named. Shuffles before a cache have a seed
alone. An iterator over several pipelines has the facts of each.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.errors import InvalidArgumentError

__all__ = ["Position", "consumed_and_bases", "failed_in", "seeds_in"]

Position = dict[str, Any]
"""Of numbers, lists and dicts, as JSON knows them; one that somebody gives back is checked when it is read."""


def consumed_and_bases(position: Position, num_shuffles: int) -> tuple[int, list[int]]:
    """The two facts of a saved position, checked.

    Args:
        position: what `state_dict` of a dataset's iterator returned.
        num_shuffles: shuffles of the dataset that is to go there.

    Returns:
        Elements that were handed out, and the number of the first iteration of each shuffle.

    Raises:
        InvalidArgumentError: it is no position, or one of another dataset.

    Example:
        >>> consumed_and_bases({"consumed": 3, "shuffles": [2]}, num_shuffles=1)
        (3, [2])
    """
    try:
        consumed, bases = int(position["consumed"]), [int(base) for base in position["shuffles"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _no_position(position) from error
    if len(bases) != num_shuffles or consumed < 0:
        raise InvalidArgumentError(
            f"the saved position is that of a dataset with {len(bases)} shuffles after {consumed} elements; "
            f"this one has {num_shuffles} shuffles; expected the dataset that the position was saved from"
        )
    return consumed, bases


def failed_in(position: Position) -> list[int]:
    """The numbers of the elements, among those that were handed out, that a step could not make.

    Raises:
        InvalidArgumentError: they are no numbers.

    Example:
        >>> failed_in({"consumed": 3, "shuffles": [], "failed": [1]}), failed_in({"consumed": 3, "shuffles": []})
        ([1], [])
    """
    try:
        return sorted(int(number) for number in position.get("failed", ()))
    except (TypeError, ValueError) as error:
        raise _no_position(position) from error


def seeds_in(position: Position, seeds: Sequence[int], is_drawn: Sequence[bool], kind: str = "seeds") -> list[int]:
    """The seeds of the shuffles at a saved position: a shuffle that draws its own gets the one that it had.

    Args:
        position: what `state_dict` of a dataset's iterator returned; one without seeds says nothing of them.
        kind: of the shuffles: "seeds", or "cached_seeds" of those before a cache.
        seeds: of the dataset that is to go there.
        is_drawn: of each of them, whether the shuffle has drawn it.

    Raises:
        InvalidArgumentError: a seed that was given is another one, or they are not as many.

    Example:
        >>> seeds_in({"consumed": 3, "shuffles": [2], "seeds": [7]}, seeds=[5], is_drawn=[True])
        [7]
    """
    try:
        saved = [int(seed) for seed in position.get(kind, seeds)]
    except (TypeError, ValueError) as error:
        raise _no_position(position) from error
    if len(saved) != len(seeds):
        raise _no_position(position)
    for given, known, drawn in zip(seeds, saved, is_drawn, strict=True):
        if given != known and not drawn:
            raise InvalidArgumentError(
                f"the saved position is that of a dataset with shuffle(seed={known}), and this one has seed={given}; expected the dataset "
                "that the position was saved from"
            )
    return saved


def _no_position(position: Position) -> InvalidArgumentError:
    return InvalidArgumentError(f"not a saved position of a dataset iterator: {position!r}; expected what state_dict() returned")
