"""Datasets that a function of the user makes later and elsewhere: one for each worker, or for each replica; nothing is split.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.arguments import takes
from simdist.data.dataset import Dataset
from simdist.data.leaves import ArraySpec, Tree, unflatten
from simdist.input.context import InputContext, InputOptions, InputReplicationMode, checked_options
from simdist.input.prefetch import Pace
from simdist.input.row_leaves import RowLeaves, has_fixed_shapes
from simdist.input.steps import InputIterator
from simdist.input.view import InputView
from simdist.input.worker_pipelines import WorkerPipelines

__all__ = ["DatasetCreator", "FunctionInput"]


class DatasetCreator:
    """A function that builds a dataset, for ``model.fit`` under a strategy.

    Args:
        dataset_fn: called with an `InputContext` by each worker; returns a `Dataset`.
        input_options: how the elements reach the devices in `fit`: from one pipeline per worker, or from one per replica. `evaluate` and
            `predict` read a single pipeline.

    Raises:
        TypeError: `dataset_fn` cannot be called, or `input_options` is not an `InputOptions`.
        InvalidArgumentError: the pipeline is to run on a device.

    Example:
        >>> creator = DatasetCreator(lambda context: Dataset.range(8).batch(context.get_per_replica_batch_size(4)))
        >>> creator(InputContext(num_replicas_in_sync=2))
        Dataset.range(8).batch(2)
    """

    def __init__(self, dataset_fn: Callable[[InputContext], Dataset], input_options: InputOptions | None = None) -> None:
        if not takes(dataset_fn, InputContext()):
            raise TypeError(
                f"DatasetCreator was given {dataset_fn!r}; expected a function that takes an InputContext "
                "and returns a Dataset; write DatasetCreator(lambda context: dataset)"
            )
        self.dataset_fn = dataset_fn
        self.input_options = checked_options(input_options, "input_options")

    def __call__(self, input_context: InputContext) -> Dataset:
        """Build the dataset of one pipeline.

        Raises:
            TypeError: the function returned something else.
        """
        dataset = self.dataset_fn(input_context)
        if not isinstance(dataset, Dataset):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"the function of a DatasetCreator returned {type(dataset).__name__}; expected a Dataset; "
                "is a `return` missing? Wrap other iterables in Dataset.from_iterable(...)"
            )
        return dataset


class FunctionInput(InputView):
    """The steps of datasets that a function makes: each replica gets the next element of its pipeline, whole.

    Args:
        dataset_fn: called with an `InputContext`, once for each pipeline, when that is first read; returns a `Dataset`
            whose batches are those of one replica.
        num_workers: workers, 1 or more.
        replicas_per_worker: replicas of each, 1 or more.
        input_options: one pipeline per worker, whose elements go to its replicas in turn, or one per replica.
        workers: the workers whose parts are wanted; None is all of them.

    Raises:
        TypeError: `dataset_fn` cannot be called, or returned something else than a dataset.

    Example:
        >>> def dataset_fn(context):
        ...     return Dataset.range(10).batch(context.get_per_replica_batch_size(4))
        >>> steps = list(FunctionInput(dataset_fn, replicas_per_worker=2))
        >>> [[part.value().tolist() for part in step.parts[0]] for step in steps]
        [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], []]]
    """

    def __init__(
        self,
        dataset_fn: Callable[[InputContext], Dataset],
        num_workers: int = 1,
        replicas_per_worker: int = 1,
        input_options: InputOptions | None = None,
        workers: range | None = None,
    ) -> None:
        super().__init__(num_workers, replicas_per_worker, workers)
        self.creator = DatasetCreator(dataset_fn, input_options)
        mode = self.creator.input_options.experimental_replication_mode
        self.per_worker = self.replicas_per_worker if mode is InputReplicationMode.PER_REPLICA else 1
        self._datasets: dict[int, Dataset] = {}

    @property
    def contexts(self) -> tuple[InputContext, ...]:
        """What the function is given, for each pipeline of the workers whose parts are wanted.

        Example:
            >>> FunctionInput(lambda context: Dataset.range(4).batch(1), 2, 2).contexts[1]
            InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
        """
        return tuple(self.context(worker * self.per_worker + at) for worker in self.workers for at in range(self.per_worker))

    def context(self, pipeline: int) -> InputContext:
        """What the function is given for one pipeline."""
        return InputContext(self.num_workers * self.per_worker, pipeline, self.num_replicas)

    def pipeline(self, number: int) -> Dataset:
        """The dataset of one pipeline; made when it is first needed."""
        if number not in self._datasets:
            self._datasets[number] = self.creator(self.context(number))
        return self._datasets[number]

    def worker_pipeline(self, index: int) -> FunctionInput:
        """The parts of one worker only; its process calls the function for itself."""
        return FunctionInput(
            self.creator.dataset_fn, self.num_workers, self.replicas_per_worker, self.creator.input_options, self.only(index)
        )

    def __iter__(self) -> InputIterator:
        datasets = [dataset for worker in self.workers for dataset in self._datasets_of(worker)]
        return WorkerPipelines(
            [list(map(RowLeaves, self._datasets_of(worker))) for worker in self.workers],
            self.replicas_per_worker,
            complete=self.is_whole,
            num_workers=self.num_workers,
            away={worker: list(map(RowLeaves, self._datasets_of(worker))) for worker in self.away},
            full_steps=lambda: all(dataset.node.full_batches for dataset in datasets),
            fixed_shapes=lambda: all(has_fixed_shapes(dataset.node) for dataset in datasets),
        )

    def _datasets_of(self, worker: int) -> list[Dataset]:
        return [self.pipeline(worker * self.per_worker + at) for at in range(self.per_worker)]

    def pace(self, worker: int) -> Pace:
        """A pipeline of a worker makes an element for each of its replicas in a step; those of replicas work at the same time."""
        datasets = self._datasets_of(worker)
        elements = self.replicas_per_worker // self.per_worker
        seconds = max(dataset.options().seconds_per_element for dataset in datasets)
        return Pace(elements * seconds, min(dataset.prefetched for dataset in datasets) // elements)

    @property
    def element_spec(self) -> Tree:
        """Shape and dtype of what one replica gets: an element of its pipeline; of several workers, those of one may have ended."""
        node = self.pipeline(self.workers[0] * self.per_worker).node
        structure, leaves = node.spec()
        if self.num_workers > 1 and node.full_batches:  # and none of a worker whose data have ended before those of others
            leaves = [ArraySpec((None, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        return unflatten(structure, leaves)
