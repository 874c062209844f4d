"""How a dataset is shared among workers and replicas: from its elements to the rows that one replica gets for a step.

    DistributedDataset       what a strategy gives to its user; each pass over it is a DistributedIterator
      DistributedInput       one dataset for all workers: sharding.py says which elements each reads, rebatch.py how they are cut
      FunctionInput          datasets that a function makes, one for each worker or replica
        SharedBatches        a pass: one source, cut for all replicas            \\  both give an InputStep at a time,
        WorkerPipelines      a pass: sources of each worker, perhaps Rebatched   /   and know their position
      DistributedIterator    a pass: the steps, until all replicas have taken them; prefetch.py says when they are there
        ReplicaIterator      what one replica takes: a ReplicaBatch a step
      PacedIterator          one replica alone takes whole batches, and waits for them
      CommonIterator         batches that all replicas take, whole; SplitBatches: batches that are there already, cut for all of them

Invariant: nothing here knows a device or a strategy; layout.py says what is asked of one.

Taught in lesson 08.
"""

from simdist.input.context import InputContext, InputOptions, InputReplicationMode
from simdist.input.distributed_dataset import DistributedDataset
from simdist.input.distributed_input import DistributedInput
from simdist.input.distributed_iterator import DistributedIterator
from simdist.input.function_input import DatasetCreator, FunctionInput
from simdist.input.rebatch import replica_batch_sizes, worker_batch_sizes
from simdist.input.replica_batch import ReplicaBatch
from simdist.input.sharding import applied_policy, shard_for_worker
from simdist.input.steps import InputIterator, InputStep

__all__ = [
    "DatasetCreator",
    "DistributedDataset",
    "DistributedInput",
    "DistributedIterator",
    "FunctionInput",
    "InputContext",
    "InputIterator",
    "InputOptions",
    "InputReplicationMode",
    "InputStep",
    "ReplicaBatch",
    "applied_policy",
    "replica_batch_sizes",
    "shard_for_worker",
    "worker_batch_sizes",
]
