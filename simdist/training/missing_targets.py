"""The error of a loss or a metric that was given no targets.

Keras and JAX have many words for it, by the form of the outputs and by what is computed first. What they have in common is where it
happens: in Keras' code of the losses and metrics that ``compile`` was given.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras.src.trainers import compile_utils

from simdist.errors import InvalidArgumentError, SimdistError
from simdist.program.arrays import Tree

__all__ = ["explained_without_targets"]


@contextmanager
def explained_without_targets(model: str, y: Tree) -> Iterator[None]:
    """Compute what compares with targets, which may be missing.

    Args:
        model: its name, for the message.
        y: the targets; None, or of all outputs None: there are none, which is right for a loss that needs none.

    Raises:
        InvalidArgumentError: there are none, and a loss or a metric that was given to ``compile`` needs them.
    """
    try:
        yield
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        if isinstance(error, SimdistError) or _has_targets(y) or not _is_of_what_was_compiled(error):
            raise
        raise InvalidArgumentError(
            f"{model} was compiled with a loss or with metrics that compare with targets, and the data has none. Give y, or batches of the "
            "form (x, y); a model that computes its loss by itself (add_loss, compute_loss) is compiled without loss and metrics."
        ) from error


def _has_targets(y: Tree) -> bool:
    return any(leaf is not None for leaf in keras.tree.flatten(y))


def _is_of_what_was_compiled(error: Exception) -> bool:
    """Whether an error comes from compiled losses or metrics, and not from a layer, or from a ``compute_loss`` of the user's own."""
    return any(frame.f_globals.get("__name__") == compile_utils.__name__ for frame, _ in traceback.walk_tb(error.__traceback__))
