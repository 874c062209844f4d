"""A dataset that is built later and elsewhere: by each worker, on the worker.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.data.dataset import Dataset
from simdist.data.input_context import InputContext, InputOptions

__all__ = ["DatasetCreator"]


class DatasetCreator:
    """A function that builds a dataset, for ``model.fit`` under a strategy.

    Args:
        dataset_fn: called with an `InputContext` by each worker; returns a `Dataset`.
        input_options: how the elements reach the devices.

    Raises:
        TypeError: `dataset_fn` cannot be called, or `input_options` is not an `InputOptions`.

    Example:
        >>> creator = DatasetCreator(lambda context: Dataset.range(8).batch(context.get_per_replica_batch_size(4)))
        >>> creator(InputContext(num_replicas_in_sync=2))
        Dataset.range(8).batch(2)
    """

    def __init__(self, dataset_fn: Callable[[InputContext], Dataset], input_options: InputOptions | None = None) -> None:
        given: Any = dataset_fn
        if not callable(given):
            raise TypeError(
                f"DatasetCreator was given {given!r}; expected a function that takes an InputContext "
                "and returns a Dataset; write DatasetCreator(lambda context: dataset)"
            )
        options: Any = input_options
        if options is not None and not isinstance(options, InputOptions):
            raise TypeError(f"input_options is {options!r}; expected an InputOptions or None; write InputOptions(...)")
        self.dataset_fn = dataset_fn
        self.input_options = input_options

    def __call__(self, input_context: InputContext) -> Dataset:
        """Build the dataset for one place.

        Raises:
            TypeError: the function returned something else.
        """
        dataset: Any = self.dataset_fn(input_context)
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"the function of a DatasetCreator returned {type(dataset).__name__}; expected a Dataset; "
                "is a `return` missing? Wrap other iterables in Dataset.from_iterable(...)"
            )
        return dataset
