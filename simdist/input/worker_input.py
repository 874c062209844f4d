"""The input of one worker whose replicas take steps without those of other workers: its global batch is theirs alone.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simdist.data import Dataset
from simdist.input.context import InputContext, InputOptions
from simdist.input.distributed_dataset import DistributedDataset

__all__ = ["WorkerLayout", "dataset_of_worker"]


@dataclass(frozen=True)
class WorkerLayout:
    """As `ReplicaLayout`: one worker with all its replicas, whose closures do not wait for elements.

    Args:
        num_replicas_in_sync: of the worker.
    """

    num_replicas_in_sync: int
    engine: None = None
    num_workers: int = 1
    workers_at_first: int = 1
    worker_index: int = 0
    launched: bool = False

    @property
    def present_workers(self) -> range:
        return range(1)

    @property
    def ranks(self) -> range:
        return range(self.num_replicas_in_sync)


def dataset_of_worker(
    source: Dataset | Callable[[InputContext], Dataset], context: InputContext, options: InputOptions | None = None
) -> DistributedDataset:
    """What the replicas of one worker take.

    Args:
        source: a dataset of global batches, each of which is cut into a part for every replica; or a function that makes a dataset whose
            batches its replicas take in turn, whole.
        context: of the worker's pipeline: how many workers and replicas there are.
        options: as of `DistributedDataset`.

    Example:
        >>> dataset = dataset_of_worker(Dataset.range(4).batch(4), InputContext(3, 1, 2))
        >>> next(iter(dataset))
        PerReplica(array([0, 1], dtype=int32), array([2, 3], dtype=int32))
    """
    replicas = context.num_replicas_in_sync
    layout = WorkerLayout(replicas)
    if isinstance(source, Dataset):
        return DistributedDataset(layout, source, options)

    def pipeline(local: InputContext) -> Dataset:
        # The worker's pipelines are some of those of all workers.
        count = local.num_input_pipelines
        number = count * context.input_pipeline_id + local.input_pipeline_id
        return source(InputContext(count * context.num_input_pipelines, number, replicas))

    return DistributedDataset(layout, pipeline, options)
