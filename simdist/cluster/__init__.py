"""The cluster on paper: its spec, the resolvers that find it, and the roles of its tasks."""

from simdist.cluster.resolver import (
    ClusterResolver,
    SimpleClusterResolver,
    spec_of,
)
from simdist.cluster.roles import (
    collective_leader,
    coordination_leader,
    id_in_cluster,
    is_chief,
    worker_count,
)
from simdist.cluster.spec import ClusterSpec
from simdist.cluster.tasks import TaskId, find_task, server_task, tasks_of
from simdist.cluster.tf_config import MalformedJSONError, TFConfig, TFConfigClusterResolver, read_tf_config
from simdist.cluster.tpu import TPUClusterResolver
from simdist.cluster.union import DuplicateTaskError, UnionResolver

__all__ = [
    "ClusterResolver",
    "ClusterSpec",
    "DuplicateTaskError",
    "MalformedJSONError",
    "SimpleClusterResolver",
    "TFConfig",
    "TFConfigClusterResolver",
    "TPUClusterResolver",
    "TaskId",
    "UnionResolver",
    "collective_leader",
    "coordination_leader",
    "find_task",
    "id_in_cluster",
    "is_chief",
    "read_tf_config",
    "server_task",
    "spec_of",
    "tasks_of",
    "worker_count",
]
