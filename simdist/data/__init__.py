"""Input pipelines: datasets, how they are shared among workers and replicas, and what the engine receives of them.

Taught in lesson 01.
"""

from simdist.data.autoshard import applied_policy, shard_for_worker
from simdist.data.batch import Batch
from simdist.data.creator import DatasetCreator
from simdist.data.dataset import AUTOTUNE, Dataset
from simdist.data.distributed import DistributedInput
from simdist.data.feeds import InputStep
from simdist.data.input_context import InputContext, InputOptions, InputReplicationMode
from simdist.data.input_function import FunctionInput
from simdist.data.input_iterator import InputIterator
from simdist.data.iterator import DatasetIterator
from simdist.data.leaves import ArraySpec
from simdist.data.options import SHARD_HINT, AutoShardPolicy, DistributeOptions, Options
from simdist.data.rebatch import replica_batch_sizes, worker_batch_sizes
from simdist.data.table import Table

__all__ = [
    "AUTOTUNE",
    "SHARD_HINT",
    "ArraySpec",
    "AutoShardPolicy",
    "Batch",
    "Dataset",
    "DatasetCreator",
    "DatasetIterator",
    "DistributeOptions",
    "DistributedInput",
    "FunctionInput",
    "InputContext",
    "InputIterator",
    "InputOptions",
    "InputReplicationMode",
    "InputStep",
    "Options",
    "Table",
    "applied_policy",
    "replica_batch_sizes",
    "shard_for_worker",
    "worker_batch_sizes",
]
