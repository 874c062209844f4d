"""simdist: a whole training cluster in one Python process.

The tasks, the network, the clock and the failures are simulated, deterministically; every number is really computed by
JAX. The names are those of ``tf.distribute``.
"""

import importlib as _importlib
import os as _os
import sys as _sys
import types as _types
import typing as _typing

from simdist import caches, errors, hardware
from simdist.checkpoint import (
    Checkpoint,
    CheckpointManager,
    CheckpointOptions,
    PreemptionCheckpointHandler,
    TerminationConfig,
    checkpoints_iterator,
    latest_checkpoint,
)
from simdist.cluster import ClusterSpec, SimpleClusterResolver, TFConfigClusterResolver, TPUClusterResolver
from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.coordinator.remote_value import RemoteValue
from simdist.data import AUTOTUNE, ArraySpec, AutoShardPolicy, Dataset, Options
from simdist.data.absent_names import OF_THE_PACKAGE as _OF_THE_PACKAGE
from simdist.data.absent_names import refusal as _refusal
from simdist.debugging import debug
from simdist.faults.plan import FaultPlan
from simdist.input import DatasetCreator, DistributedDataset, DistributedIterator, InputContext, InputOptions, InputReplicationMode
from simdist.lookup import IntegerLookup, KeyValueTensorInitializer, StaticHashTable, StringLookup, TextVectorization
from simdist.program.function import function
from simdist.program.per_replica import PerReplica
from simdist.program.scope import late_libraries as _late_libraries
from simdist.runtime.cluster import Cluster
from simdist.runtime.collector import spare_the_collector
from simdist.runtime.server import Server
from simdist.runtime.sleep import sleep
from simdist.session import Session, compare, open_share, recovery, share
from simdist.strategies.averages import compute_average_loss, scale_regularization_loss
from simdist.strategies.base import Strategy
from simdist.strategies.central_storage import CentralStorageStrategy
from simdist.strategies.communication import CommunicationImplementation, CommunicationOptions
from simdist.strategies.context import (
    ReplicaContext,
    experimental_set_strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from simdist.strategies.cross_device import HierarchicalCopyAllReduce, NcclAllReduce, ReductionToOneDevice
from simdist.strategies.mirrored import MirroredStrategy
from simdist.strategies.multi_worker_mirrored import MultiWorkerMirroredStrategy
from simdist.strategies.one_device import OneDeviceStrategy
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.reduction import ReduceOp
from simdist.strategies.tpu import TPUStrategy
from simdist.strategies.values_from_function import ValueContext
from simdist.strategies.worker_copies import get_current_worker_index
from simdist.training.sidecar import SidecarEvaluator
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.checks import check_numerics
from simdist.variables.embedding import embedding_lookup
from simdist.variables.gradients import value_and_grad
from simdist.variables.optimizer import Optimizer
from simdist.variables.partitioners import FixedShardsPartitioner, MaxSizePartitioner, MinSizePartitioner
from simdist.variables.per_worker import PerWorkerVariable
from simdist.variables.sharded import ShardedVariable
from simdist.variables.sparse_embedding import embedding_lookup_sparse
from simdist.variables.variable import Variable

if _typing.TYPE_CHECKING:
    from simdist import estimator, feature_column

__version__ = "0.1.0"
_LATE = ("estimator", "feature_column", "keras")

# Also for programs that import Keras by its own name after this package.
_os.environ["KERAS_BACKEND"] = _os.environ.get("KERAS_BACKEND") or "jax"


def __getattr__(name: str) -> _types.ModuleType:
    """Modules that few programs need are imported when they are asked for."""
    if name in _LATE:
        return _importlib.import_module(f"simdist.{name}")
    raise _refusal("module 'simdist'", name, _OF_THE_PACKAGE.get(name))


def _know_keras() -> None:
    """Who has imported Keras itself gets its variables adopted, too; or a refusal where its models would train on one device."""
    if _sys.modules["keras"].backend.backend() == "jax":
        _importlib.import_module("simdist.keras")


_late_libraries["keras"] = _know_keras


# Sorted: classes first, then functions and modules.
__all__ = [
    "AUTOTUNE",
    "ArraySpec",
    "AutoShardPolicy",
    "CentralStorageStrategy",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointOptions",
    "Cluster",
    "ClusterCoordinator",
    "ClusterSpec",
    "CommunicationImplementation",
    "CommunicationOptions",
    "Dataset",
    "DatasetCreator",
    "DistributedDataset",
    "DistributedIterator",
    "FaultPlan",
    "FixedShardsPartitioner",
    "HierarchicalCopyAllReduce",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "IntegerLookup",
    "KeyValueTensorInitializer",
    "MaxSizePartitioner",
    "MinSizePartitioner",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "Optimizer",
    "Options",
    "ParameterServerStrategy",
    "PerReplica",
    "PerWorkerVariable",
    "PreemptionCheckpointHandler",
    "ReduceOp",
    "ReductionToOneDevice",
    "RemoteValue",
    "ReplicaContext",
    "Server",
    "Session",
    "ShardedVariable",
    "SidecarEvaluator",
    "SimpleClusterResolver",
    "StaticHashTable",
    "Strategy",
    "StringLookup",
    "TFConfigClusterResolver",
    "TPUClusterResolver",
    "TPUStrategy",
    "TerminationConfig",
    "TextVectorization",
    "ValueContext",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "caches",
    "check_numerics",
    "checkpoints_iterator",
    "compare",
    "compute_average_loss",
    "debug",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "errors",
    "estimator",
    "experimental_set_strategy",
    "feature_column",
    "function",
    "get_current_worker_index",
    "get_replica_context",
    "get_strategy",
    "hardware",
    "has_strategy",
    "in_cross_replica_context",
    "latest_checkpoint",
    "open_share",
    "recovery",
    "scale_regularization_loss",
    "share",
    "sleep",
    "spare_the_collector",
    "value_and_grad",
]
