"""Which task of a training an Estimator runs on, as ``TF_CONFIG`` says, under the rules of TensorFlow's `RunConfig`.

A training without a cluster is local: it is worker 0 and its own chief. An evaluator stands beside the cluster, and sees none. A cluster
has exactly one chief; where a strategy is given, worker 0 may take its place, as everywhere in this package.

Only rules live here: the variable itself is read and checked by `simdist.cluster.tf_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from simdist.cluster import ClusterSpec
from simdist.cluster.roles import is_chief
from simdist.cluster.tf_config import TFConfig, read_tf_config
from simdist.errors import InvalidArgumentError

__all__ = ["TrainingTask", "model_dir_of", "training_task"]

CHIEF, WORKER, PS, EVALUATOR = "chief", "worker", "ps", "evaluator"


@dataclass(frozen=True)
class TrainingTask:
    """A task of a training, and the cluster that it sees.

    Attributes:
        cluster_spec: empty for a local training and for an evaluator.
        task_type, task_id: the task.
        master: its address, empty where it has no peer.
        evaluation_master: what ``eval_session_master`` of TF_CONFIG says, or empty.
        is_chief: whether it saves.
        num_worker_replicas: tasks that train, the chief among them.
        num_ps_replicas: parameter servers.
        global_id_in_cluster: its number among all tasks: the chief, the others by name, the servers; None for an evaluator.
        service: what TF_CONFIG says of the service, if it does.
    """

    cluster_spec: ClusterSpec
    task_type: str
    task_id: int
    master: str = ""
    evaluation_master: str = ""
    is_chief: bool = True
    num_worker_replicas: int = 1
    num_ps_replicas: int = 0
    global_id_in_cluster: int | None = 0
    service: Mapping[str, Any] | None = None


def training_task(has_strategy: bool) -> TrainingTask:
    """The task that ``TF_CONFIG`` describes at this moment.

    Args:
        has_strategy: whether a strategy says how the tasks train together; then there need not be a chief.

    Raises:
        InvalidArgumentError: a cluster without a chief or with several, a task without type or index, or one that cannot be.
        TypeError: "service" is no object.

    Example:
        >>> task = training_task(has_strategy=False)
        >>> task.task_type, task.task_id, task.is_chief, task.master
        ('worker', 0, True, '')
    """
    config = read_tf_config()
    service = _service(config)
    if not config.cluster:
        return _local(config, service)
    task_type, task_id = _member(config, has_strategy)
    evaluation_master = _text(config, "eval_session_master") if task_type == EVALUATOR else ""
    if task_type == EVALUATOR:
        return TrainingTask(ClusterSpec({}), task_type, task_id, "", evaluation_master, False, 0, 0, None, service)
    return TrainingTask(
        config.cluster,
        task_type,
        task_id,
        _master(config, task_type, task_id),
        evaluation_master,
        is_chief(config.cluster, task_type, task_id),
        _count(config.cluster, WORKER) + _count(config.cluster, CHIEF),
        _count(config.cluster, PS),
        _global_id(config.cluster, task_type, task_id),
        service,
    )


def model_dir_of(given: str | None) -> str | None:
    """The directory of a model: as given, or as ``model_dir`` of TF_CONFIG says.

    Raises:
        InvalidArgumentError: one is empty, or they differ.
    """
    in_config = read_tf_config().content.get("model_dir")
    for value, where in ((given, "model_dir"), (in_config, "model_dir in TF_CONFIG")):
        if value == "":
            raise InvalidArgumentError(f"{where} is empty; expected the path of a directory, or leave it out.")
    if in_config is not None and not isinstance(in_config, str):
        raise InvalidArgumentError(f"model_dir in TF_CONFIG is {in_config!r}; expected text, the path of a directory.")
    if given and in_config and given != in_config:
        raise InvalidArgumentError(f"model_dir={given!r}, but TF_CONFIG has model_dir {in_config!r}. Give the same, or one of them alone.")
    return given or in_config


def _local(config: TFConfig, service: Mapping[str, Any] | None) -> TrainingTask:
    task_type = WORKER if config.task_type is None else config.task_type
    if task_type != WORKER or config.task_id not in (None, 0):
        raise InvalidArgumentError(
            f"TF_CONFIG has no cluster, so this is a local training, whose task is worker 0; got type {task_type!r}, index "
            f"{config.task_id!r}. Add the key 'cluster', or leave 'task' out."
        )
    evaluation_master = _text(config, "eval_session_master")
    return TrainingTask(config.cluster, WORKER, 0, config.session_master or "", evaluation_master, service=service)


def _member(config: TFConfig, has_strategy: bool) -> tuple[str, int]:
    """The task, which is one of the cluster, or its evaluator."""
    chiefs = _count(config.cluster, CHIEF)
    if chiefs > 1:
        raise InvalidArgumentError(f'The cluster of TF_CONFIG must have only one "chief"; got {chiefs}. Call the others workers.')
    if not chiefs and not has_strategy:
        raise InvalidArgumentError(
            f'The cluster of TF_CONFIG must have one "chief"; it has the jobs {config.cluster.jobs}. Name one, or let all workers train '
            "together: RunConfig(train_distribute=sd.MultiWorkerMirroredStrategy)."
        )
    if not config.task_type:
        raise InvalidArgumentError("TF_CONFIG has a cluster, so the task's type must be set: {'task': {'type': 'worker', 'index': 0}}.")
    if config.task_id is None:
        raise InvalidArgumentError("TF_CONFIG has a cluster, so the task's index must be set: {'task': {'type': 'worker', 'index': 0}}.")
    return config.task_type, config.task_id


def _master(config: TFConfig, task_type: str, task_id: int) -> str:
    if config.session_master is not None:
        return config.session_master
    alone = sum(map(config.cluster.num_tasks, config.cluster.jobs)) == 1
    return "" if alone else f"grpc://{config.cluster.task_address(task_type, task_id)}"


def _global_id(cluster: ClusterSpec, task_type: str, task_id: int) -> int:
    ordered = [CHIEF, *sorted(job for job in cluster.jobs if job not in (CHIEF, PS)), PS]
    return sum(_count(cluster, job) for job in ordered[: ordered.index(task_type)]) + task_id


def _service(config: TFConfig) -> Mapping[str, Any] | None:
    service = config.content.get("service")
    if service is not None and not isinstance(service, dict):
        raise TypeError(f'"service" of TF_CONFIG must be an object; got {service!r}')
    return cast("dict[str, Any] | None", service)


def _text(config: TFConfig, key: str) -> str:
    found = config.content.get(key, "")
    if not isinstance(found, str):
        raise InvalidArgumentError(f"{key} in TF_CONFIG is {found!r}; expected text.")
    return found


def _count(cluster: ClusterSpec, job: str) -> int:
    return cluster.num_tasks(job) if job in cluster else 0
