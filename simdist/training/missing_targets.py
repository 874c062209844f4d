"""The error of a loss or a metric that was given no targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree

__all__ = ["explained_without_targets"]

NO_TARGETS = "None is not a valid value"
"""What JAX says of targets that are missing."""


@contextmanager
def explained_without_targets(model: str, y: Tree) -> Iterator[None]:
    """Compute what compares with targets, which may be missing.

    Args:
        model: its name, for the message.
        y: the targets; None: there are none, which is right for a loss that needs none.

    Raises:
        InvalidArgumentError: there are none, and what was computed needs them.
    """
    try:
        yield
    except ValueError as error:
        if y is not None or NO_TARGETS not in str(error):
            raise
        raise InvalidArgumentError(
            f"{model} was compiled with a loss or with metrics that compare with targets, and the data has none. Give y, or batches of the "
            "form (x, y); a model that computes its loss by itself (add_loss, compute_loss) is compiled without loss and metrics."
        ) from error
