"""`DistributedFromFunction`: what a strategy gives for a dataset that each input pipeline makes for itself.

It holds the function and its options. Those who run pipelines, such as the workers of parameter servers, call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import InputContext, InputOptions
from simdist.input.context import checked_options, require_common_pipeline

__all__ = ["DistributedFromFunction"]


class DistributedFromFunction:
    """Datasets that each input pipeline makes for itself by calling a function with its `InputContext`.

    Args:
        dataset_fn: the function.
        options: `InputOptions`. Closures do not wait for elements, so that their buffers have no effect.
        dataset: what was distributed, where it was one dataset for all pipelines.

    Raises:
        TypeError: `options` are something else.
        InvalidArgumentError: the pipeline is to run on a device.
        NotImplementedError: one dataset, and a pipeline per replica.
    """

    def __init__(
        self, dataset_fn: Callable[[InputContext], Any], options: InputOptions | None = None, dataset: Dataset | None = None
    ) -> None:
        self.dataset_fn = dataset_fn
        self.options = checked_options(options)
        self.dataset = dataset
        if dataset is not None:
            require_common_pipeline(self.options)

    def on_worker(self, context: InputContext) -> Any:
        """The dataset of one worker."""
        return self.dataset_fn(context)

    def __iter__(self) -> NoReturn:
        raise InvalidArgumentError(
            "A distributed dataset of a ParameterServerStrategy lives on the workers and cannot be iterated here. Pass it to "
            "coordinator.create_per_worker_dataset, and an iterator of that to the step."
        )
