"""Options that are refused beside data that brings its batches: such data holds its targets, weights and sizes itself."""

from __future__ import annotations

from typing import cast

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.training.sources.base import Given

__all__ = ["no_data", "require_alone", "require_shuffle"]

REMEDIES = {
    "y": "whose batches hold their targets already. Leave y out.",
    "batch_size": "which is batched already. Batch it where it is made{batch}, and leave batch_size out.",
    "shuffle": "whose order is its own. Shuffle it where it is made{shuffle}, and leave shuffle out.",
    "sample_weight": "whose batches hold their weights. Make the weights a third component: (x, y, weight).",
    "class_weight": "whose batches hold their weights. Make the weights a third component: (x, y, weight).",
}
FOR_DATASETS = {"batch": " (dataset.batch(n))", "shuffle": " (dataset.shuffle(buffer_size) before it is batched)"}


def require_alone(given: Given, kind: str, *, class_weight: bool = False, shuffle: bool = False) -> None:
    """Refuse what the data holds itself.

    Args:
        given: what the call was given.
        kind: the noun for its data.
        class_weight, shuffle: whether this kind takes them.

    Raises:
        InvalidArgumentError: something else was given beside it.
    """
    beside = {
        "y": given.y,
        "batch_size": given.batch_size,
        "shuffle": None if shuffle else given.shuffle or None,
        "sample_weight": given.sample_weight,
        "class_weight": None if class_weight else given.class_weight,
    }
    hints = FOR_DATASETS if kind == "a dataset" else dict.fromkeys(FOR_DATASETS, "")
    for name, value in beside.items():
        if value is not None:
            raise InvalidArgumentError(f"{given.caller}: {name} was given together with {kind}, {REMEDIES[name].format(**hints)}")


def require_shuffle(shuffle: bool | None) -> None:
    """Refuse other values than True, False and None.

    Raises:
        InvalidArgumentError: another one.
    """
    if not isinstance(cast("object", shuffle), (int, np.bool_, type(None))) or shuffle not in (None, True, False):
        raise InvalidArgumentError(f"shuffle={shuffle!r} is not known; expected True or False.")


def no_data(caller: str) -> InvalidArgumentError:
    """The error of a call whose data has no batch."""
    return InvalidArgumentError(
        f"{caller} was given no data: it has no row. Check its filter, its slice, and drop_remainder, by which it may have no full batch."
    )
