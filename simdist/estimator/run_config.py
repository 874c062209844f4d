"""`RunConfig`: how an Estimator trains: where it saves and how often, by which strategies, and on which task.

Times are virtual seconds. What only TensorFlow's graphs and sessions have is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from simdist.arguments import flag, number, whole_number
from simdist.cluster import ClusterSpec
from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.estimator.environment import TrainingTask, model_dir_of, training_task
from simdist.strategies.base import Strategy

__all__ = ["RunConfig", "StrategyOrMaker"]

StrategyOrMaker: TypeAlias = Strategy | Callable[[], Strategy] | None
"""A strategy; or a function without arguments that makes one, which only the tasks call that train or evaluate."""


class _Unset:
    def __repr__(self) -> str:
        return "<default>"


UNSET: Any = _Unset()
SESSION_TIMEOUT_S = 7200


@dataclass(frozen=True)
class RunConfig:
    """How an Estimator trains; read-only. Where it is made, ``TF_CONFIG`` says on which task.

    Args:
        model_dir: directory of checkpoints and event files; default that of TF_CONFIG, or a new temporary one.
        tf_random_seed: of the initial values of variables; default: from the seed of the cluster.
        save_summary_steps: every how many steps the loss is written to an event file; 0 or None: never. Default 100.
        save_checkpoints_steps: every how many steps a checkpoint is saved.
        save_checkpoints_secs: after how many virtual seconds one is saved; default 600, if save_checkpoints_steps is not given. With
            neither of the two (both None) nothing is saved.
        keep_checkpoint_max: how many checkpoints stay; 0 or None: all. Default 5.
        keep_checkpoint_every_n_hours: virtual hours; one checkpoint of each such time stays for ever. Default 10,000.
        log_step_count_steps: every how many steps the loss and the steps per virtual second are logged; None: never. Default 100.
        train_distribute: the strategy of `Estimator.train`: any of this package, or a function without arguments that makes one
            (``sd.MultiWorkerMirroredStrategy`` itself, for example), which is called on the tasks that train. Default: parameter servers
            where the cluster of TF_CONFIG has some, else one device.
        eval_distribute: that of `Estimator.evaluate`: any but a `ParameterServerStrategy`, or a function; default one device.
        protocol: only "grpc", which is the default.
        experimental_max_worker_delay_secs: virtual seconds; workers of parameter servers begin 5 s one after the other, and none later than
            that. Default 60.
        session_config, device_fn, experimental_distribute, session_creation_timeout_secs: as TensorFlow's, to be left out: there are no
            sessions, and strategies place variables.
        checkpoint_save_graph_def: there are no graphs to be saved, so both values mean the same.

    Attributes:
        cluster_spec, task_type, task_id, master, evaluation_master, is_chief, num_worker_replicas, num_ps_replicas,
            global_id_in_cluster, service: as `TrainingTask` explains them.

    Raises:
        InvalidArgumentError: both save_checkpoints_steps and save_checkpoints_secs, a negative number, an option that is refused, or a
            TF_CONFIG that cannot be, or names another model_dir.
        TypeError: an option of another type.

    Example:
        >>> import simdist as sd
        >>> config = sd.estimator.RunConfig(train_distribute=sd.MirroredStrategy(2), save_checkpoints_steps=10)
        >>> config.save_checkpoints_secs, config.task_type, config.is_chief
        (None, 'worker', True)
        >>> config.replace(save_checkpoints_secs=60).save_checkpoints_steps is None
        True
    """

    model_dir: str | os.PathLike[str] | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = UNSET
    save_checkpoints_secs: float | None = UNSET
    session_config: None = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float | None = 10_000
    log_step_count_steps: int | None = 100
    train_distribute: StrategyOrMaker = None
    device_fn: None = None
    protocol: str | None = None
    eval_distribute: StrategyOrMaker = None
    experimental_distribute: None = None
    experimental_max_worker_delay_secs: int | None = None
    session_creation_timeout_secs: int = SESSION_TIMEOUT_S
    checkpoint_save_graph_def: bool = True
    _task: TrainingTask | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _refuse_foreign(self)
        steps, secs = _frequency(self.save_checkpoints_steps, self.save_checkpoints_secs)
        _require_numbers(self, steps, secs)
        for name in ("train_distribute", "eval_distribute"):
            _require_strategy(name, cast("dict[str, object]", vars(self))[name])
        task = self._task
        if task is None:
            task = training_task(self.train_distribute is not None or self.eval_distribute is not None)
            object.__setattr__(self, "model_dir", model_dir_of(_path(self.model_dir)))
        elif self.model_dir == "":
            raise InvalidArgumentError("model_dir is empty; expected the path of a directory, or None.")
        for name, value in (("save_checkpoints_steps", steps), ("save_checkpoints_secs", secs), ("_task", task)):
            object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> RunConfig:
        """A copy with other options; one that has `save_checkpoints_steps` alone has no `save_checkpoints_secs`, and the reverse.

        Raises:
            InvalidArgumentError: an option that cannot be replaced; or as the constructor.
        """
        for name in changes:
            if name not in OPTIONS:
                raise InvalidArgumentError(f"Replacing {name!r} is not supported. {did_you_mean(name, OPTIONS)}")
        one, other = "save_checkpoints_steps", "save_checkpoints_secs"
        for given, cleared in ((one, other), (other, one)):
            if changes.get(given) is not None and cleared not in changes:
                changes = {**changes, cleared: None}
        if "model_dir" in changes:
            changes["model_dir"] = _path(changes["model_dir"])
        return replace(self, **changes)

    # -- the task -------------------------------------------------------------------------------------------------

    @property
    def task(self) -> TrainingTask:
        """The task of this process."""
        assert self._task is not None
        return self._task

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The cluster of the training; empty for a local one and for an evaluator."""
        return self.task.cluster_spec

    @property
    def task_type(self) -> str:
        """The job of this task."""
        return self.task.task_type

    @property
    def task_id(self) -> int:
        """The index of this task."""
        return self.task.task_id

    @property
    def master(self) -> str:
        """The address of this task; empty where it has no peer."""
        return self.task.master

    @property
    def evaluation_master(self) -> str:
        """As TF_CONFIG says; else empty."""
        return self.task.evaluation_master

    @property
    def is_chief(self) -> bool:
        """Whether this task saves."""
        return self.task.is_chief

    @property
    def num_worker_replicas(self) -> int:
        """Tasks that train, the chief among them."""
        return self.task.num_worker_replicas

    @property
    def num_ps_replicas(self) -> int:
        """Parameter servers."""
        return self.task.num_ps_replicas

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of this task among all; None for an evaluator."""
        return self.task.global_id_in_cluster

    @property
    def service(self) -> Mapping[str, Any] | None:
        """What TF_CONFIG says of the service."""
        return self.task.service


OPTIONS = tuple(option.name for option in fields(RunConfig) if not option.name.startswith("_"))


def _refuse_foreign(config: RunConfig) -> None:
    """Refuse what only TensorFlow's graphs and sessions have."""
    instead = {
        "session_config": "there are no sessions of TensorFlow; sd.Cluster(hardware=...) describes the devices",
        "device_fn": "the strategy places variables; give train_distribute",
        "experimental_distribute": "give train_distribute and eval_distribute themselves",
    }
    given = cast("dict[str, object]", vars(config))
    for name, why in instead.items():
        if given[name] is not None:
            raise InvalidArgumentError(f"{name}={given[name]!r} is not known here: {why}. Leave it out.")
    if config.session_creation_timeout_secs != SESSION_TIMEOUT_S:
        raise InvalidArgumentError(
            f"session_creation_timeout_secs={config.session_creation_timeout_secs!r}: there are no sessions to wait for. Leave it out; "
            "sd.CommunicationOptions(timeout_seconds=...) says how long workers wait for each other."
        )
    if config.protocol not in (None, "grpc"):
        raise InvalidArgumentError(f"protocol={config.protocol!r}; expected 'grpc' or None: the network is simulated.")
    flag(config.checkpoint_save_graph_def, "checkpoint_save_graph_def")


def _frequency(steps: int | None, secs: float | None) -> tuple[int | None, float | None]:
    """How often checkpoints are saved: what was given alone, or every 600 s."""
    if steps is UNSET:
        return None, 600 if secs is UNSET else secs
    if secs is UNSET:
        return steps, None
    if steps is not None and secs is not None:
        raise InvalidArgumentError(
            f"save_checkpoints_steps={steps!r} and save_checkpoints_secs={secs!r} cannot both be set. Give one of them."
        )
    return steps, secs


def _require_numbers(config: RunConfig, steps: int | None, secs: float | None) -> None:
    least: dict[str, tuple[object, float]] = {
        "save_summary_steps": (config.save_summary_steps, 0),
        "save_checkpoints_steps": (steps, 0),
        "keep_checkpoint_max": (config.keep_checkpoint_max, 0),
        "log_step_count_steps": (config.log_step_count_steps, 1),
        "tf_random_seed": (config.tf_random_seed, float("-inf")),
        "experimental_max_worker_delay_secs": (config.experimental_max_worker_delay_secs, 0),
    }
    for name, (value, at_least) in least.items():
        if value is not None:
            whole_number(value, name, at_least)
    if secs is not None:
        number(secs, "save_checkpoints_secs")
    if (
        config.keep_checkpoint_every_n_hours is not None
        and number(config.keep_checkpoint_every_n_hours, "keep_checkpoint_every_n_hours") <= 0
    ):
        raise InvalidArgumentError(f"keep_checkpoint_every_n_hours={config.keep_checkpoint_every_n_hours}; expected more than 0 hours.")


def _require_strategy(name: str, given: object) -> None:
    if given is not None and not isinstance(given, Strategy) and not callable(given):
        raise TypeError(f"{name} is {given!r}; expected a strategy such as sd.MirroredStrategy(2), a function that makes one, or None")


def _path(given: object) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, os.PathLike):
        return str(Path(cast("os.PathLike[str]", given)))
    raise TypeError(f"model_dir is {given!r}; expected the path of a directory")
