"""What each worker of parameter servers reads of data that was given whole.

A worker makes passes of its own, again and again, and keeps every so many-th batch of each. So the data must be readable from its
beginning by every worker, and again after a restart. A generator is not: it exists once, on the chief.

A chief that reads such data in order and hands the batches out to closures would be another implementation of `per_worker`; until
there is one, `require_shareable` refuses.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, InputContext
from simdist.strategies.base import DistributedFromFunction, Strategy
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.sources.base import Source

__all__ = ["per_worker", "require_shareable"]


def require_shareable(source: Source, strategy: Strategy) -> None:
    """Refuse data that workers with passes of their own cannot read.

    Raises:
        InvalidArgumentError: it can be read only once, and the strategy has parameter servers.
    """
    if isinstance(strategy, ParameterServerStrategy) and not source.can_restart:
        raise InvalidArgumentError(
            f"fit was given {source.kind} that can be read only once, but under {type(strategy).__name__} each worker reads the data for "
            "itself. Pass a keras.utils.PyDataset, the function that makes the generator (sd.Dataset.from_iterable(function)), or an "
            "sd.DatasetCreator."
        )


def per_worker(source: Source) -> Callable[[InputContext], Dataset]:
    """What makes the dataset of a worker."""
    data = source.data
    if isinstance(data, DatasetCreator):
        return data
    if isinstance(data, DistributedFromFunction):
        return data.dataset_fn
    return lambda context: _part(source, context)


def _part(source: Source, context: InputContext) -> Dataset:
    """What a worker reads, again and again: its part of the batches; a part for two where there are few batches."""
    count, batches = context.num_input_pipelines, source.num_batches
    if batches and batches < count:
        count = batches
    return source.shard(count, context.input_pipeline_id % count).repeat()
