"""What a task does by itself, whether it shares memory with the driver or not: calls kernels, takes batches, checks numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import jax
import jax.core
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.program.collective import Collective
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle, BundleType

__all__ = ["arrays_of", "call_kernel", "no_collective_here", "next_batch", "require_finite"]


def call_kernel(
    kernel: Kernel, bundles: Sequence[Bundle], writes: Sequence[BundleType], rest: Sequence[Any] = (), where: str = ""
) -> list[Bundle]:
    """The results of a kernel, bundle by bundle; also while a step is traced."""
    arrays = [array for bundle in bundles for array in arrays_of(bundle)]
    with jax.core.eval_context():
        try:
            results = iter(kernel(*arrays, *rest))
        except Exception as error:
            error.add_note(f"while computing {kernel.name}{where}")
            raise
    return [Bundle(avals, tuple(islice(results, len(avals)))) for avals in writes]


def arrays_of(bundle: Bundle) -> tuple[Any, ...]:
    """The arrays of a bundle; here all are there from the beginning."""
    assert bundle.arrays is not None
    return bundle.arrays


def next_batch(iterator: Any, task: str) -> Any:
    """The next batch of an iterator.

    Raises:
        OutOfRangeError: there is none left.
    """
    try:
        return iterator.next_batch()
    except StopIteration:
        raise OutOfRangeError(f"The dataset of {task} has run out. Ask for fewer steps, or end the dataset with .repeat().") from None


def require_finite(bundle: Bundle, message: str, task: str, step: int) -> None:
    """Stop where a value is not finite.

    Raises:
        InvalidArgumentError: one is NaN or infinite.
    """
    if not all(np.isfinite(np.asarray(array)).all() for array in arrays_of(bundle)):
        raise InvalidArgumentError(
            f"{message}: a value is NaN or Inf ({task}, step {step}). Lower the learning rate, clip the gradients, or look at the input."
        )


def no_collective_here(task: str, collective: Collective) -> FailedPreconditionError:
    """The step of a worker came to a collective."""
    return FailedPreconditionError(f"{task} was to meet other replicas ({collective}), but its strategy has one replica for each step.")
