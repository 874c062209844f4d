"""Steps of an epoch: how many there are, the batch that comes first, and whether there is another epoch."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from simdist.data import Dataset, DatasetIterator
from simdist.errors import InvalidArgumentError
from simdist.input import DistributedDataset, DistributedIterator
from simdist.program.step_iterator import StepIterator
from simdist.training.sources.base import ENDLESS, Source
from simdist.training.sources.refusals import no_data
from simdist.training.step import Example

__all__ = ["count_steps", "data_and_first", "first_batch", "has_next", "is_spent"]


def count_steps(source: Source, steps_per_epoch: int | None) -> int | None:
    """The number of steps of an epoch; None where only the end of the data shows it.

    Raises:
        InvalidArgumentError: they must be given, or there are none.
    """
    if steps_per_epoch is not None:
        return steps_per_epoch
    if not isinstance(source.data, (Dataset, DistributedDataset)):
        return None  # the runner looks at the datasets that the function makes
    if source.cardinality() == ENDLESS:
        raise InvalidArgumentError(f"steps_per_epoch is missing, and fit was given {source.kind} that has no end. Pass steps_per_epoch=.")
    if source.num_batches == 0:
        raise no_data("fit")
    return source.num_batches


def first_batch(caller: str, iterator: DistributedIterator | DatasetIterator) -> Example:
    """The first batch, to build a model with.

    Raises:
        InvalidArgumentError: there is none.
    """
    try:
        return iterator.sample() if isinstance(iterator, DistributedIterator) else iterator.peek(0)
    except StopIteration:
        raise no_data(caller) from None


def data_and_first(caller: str, source: Source) -> tuple[Dataset, Example]:
    """A plain dataset that can be read now, and its first batch, to build a model with; no batch is made twice by code of the user.

    Raises:
        InvalidArgumentError: there is none.
    """
    iterator = iter(source)
    first = first_batch(caller, iterator)
    is_same = source.can_restart and not source.may_change
    return (source.dataset if is_same else Dataset.from_iterable(iterator)), first


def has_next(iterator: StepIterator) -> bool:
    """Whether there is one more batch; reads it, if it was not read yet."""
    try:
        iterator.peek(0)
    except StopIteration:
        return False
    return True


def is_spent(source: Source, has_next: Callable[[], bool], epochs_left: int) -> bool:
    """Whether epochs are left, but the data was read to its end and cannot be read again; with a warning."""
    if source.can_restart or not epochs_left or has_next():
        return False
    warnings.warn(
        f"The data has ended, and {source.kind} like this can be read only once; training stops here, and {epochs_left} of the epochs "
        "are left. Pass data that can be read again, or that lasts for epochs * steps_per_epoch batches.",
        stacklevel=4,
    )
    return True
