"""What an input pipeline is told about the others, and how a batch is divided among replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.data.dataset import Dataset
from simdist.data.options import InputOptions
from simdist.errors import InvalidArgumentError

__all__ = ["DatasetCreator", "InputContext", "replica_batch_sizes"]


class InputContext:
    """Which input pipeline this is, of how many, for how many replicas. Read-only.

    Example:
        >>> InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=2).get_per_replica_batch_size(8)
        4
    """

    __slots__ = ("_id", "_pipelines", "_replicas")

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1) -> None:
        self._pipelines, self._id, self._replicas = num_input_pipelines, input_pipeline_id, num_replicas_in_sync

    @property
    def num_input_pipelines(self) -> int:
        """How many pipelines there are."""
        return self._pipelines

    @property
    def input_pipeline_id(self) -> int:
        """The number of this one, from 0."""
        return self._id

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas compute one step together."""
        return self._replicas

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The batch size of one replica.

        Raises:
            InvalidArgumentError: the global batch cannot be divided evenly.
        """
        if global_batch_size % self._replicas:
            raise InvalidArgumentError(
                f"global_batch_size={global_batch_size} cannot be divided evenly among {self._replicas} replicas; use a multiple of {self._replicas}."
            )
        return global_batch_size // self._replicas

    def __repr__(self) -> str:
        return f"InputContext(pipeline {self._id} of {self._pipelines}, {self._replicas} replicas)"


class DatasetCreator:
    """A function that makes a dataset, to be called on each worker.

    Args:
        dataset_fn: takes an `InputContext`, returns a `Dataset`.
        input_options: an `InputOptions`; default none.

    Raises:
        TypeError: not a function, other options, or (when called) not a dataset.
    """

    def __init__(
        self, dataset_fn: Callable[[InputContext], Dataset], input_options: InputOptions | None = None
    ) -> None:
        if not callable(dataset_fn):
            raise TypeError(f"dataset_fn must be a function of an InputContext; got {type(dataset_fn).__name__}.")
        if input_options is not None and not isinstance(input_options, InputOptions):
            raise TypeError(f"input_options must be an sd.InputOptions; got {type(input_options).__name__}.")
        self.dataset_fn = dataset_fn
        self.input_options = input_options

    def __call__(self, context: InputContext) -> Dataset:
        dataset: Any = self.dataset_fn(context)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"dataset_fn must return an sd.Dataset; it returned {type(dataset).__name__}.")
        return dataset


def replica_batch_sizes(batch_size: int, num_replicas: int) -> tuple[int, ...]:
    """Rows of each replica: as equal as possible, the first ones get one more.

    Example:
        >>> replica_batch_sizes(5, 3), replica_batch_sizes(1, 2)
        ((2, 2, 1), (1, 0))
    """
    if num_replicas < 1:
        raise InvalidArgumentError(f"num_replicas={num_replicas} must be 1 or more.")
    base, extra = divmod(batch_size, num_replicas)
    return tuple(base + (replica < extra) for replica in range(num_replicas))
