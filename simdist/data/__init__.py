"""Input pipelines: datasets, how they are shared among workers and replicas, and what the engine receives of them.

Taught in lesson 01.
"""

from simdist.data.batch import Batch
from simdist.data.creator import DatasetCreator
from simdist.data.dataset import AUTOTUNE, Dataset
from simdist.data.input_context import InputContext, InputOptions, InputReplicationMode
from simdist.data.iterator import DatasetIterator
from simdist.data.leaves import ArraySpec
from simdist.data.options import AutoShardPolicy, DistributeOptions, Options
from simdist.data.rebatch import replica_batch_sizes, worker_batch_sizes
from simdist.data.table import Table

__all__ = [
    "AUTOTUNE",
    "ArraySpec",
    "AutoShardPolicy",
    "Batch",
    "Dataset",
    "DatasetCreator",
    "DatasetIterator",
    "DistributeOptions",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "Options",
    "Table",
    "replica_batch_sizes",
    "worker_batch_sizes",
]
