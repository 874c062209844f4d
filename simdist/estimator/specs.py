"""What an Estimator is given and what a model_fn returns: `ModeKeys`, `EstimatorSpec`, `TrainSpec`, `EvalSpec`, exporters.

They are checked where they are made, so that a wrong one is known before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import jax.numpy as jnp

from simdist.arguments import known_word, number, whole_number
from simdist.errors import InvalidArgumentError
from simdist.estimator.listeners import CheckpointSaverListener, checked_listeners
from simdist.program.arrays import Tree
from simdist.variables.keras_objects import KerasOptimizer, is_keras_optimizer
from simdist.variables.optimizer import Optimizer

__all__ = ["EstimatorSpec", "EvalSpec", "Exporter", "InputFunction", "MetricResults", "ModeKeys", "TrainSpec", "refuse_hooks"]

InputFunction: TypeAlias = Callable[..., Any]
"""A function that returns an `sd.Dataset`; see `Estimator`."""

MetricResults: TypeAlias = dict[str, Any]
"""Results of metrics by name: numbers, or arrays."""

RESERVED = ("global_step", "loss")
"""Names of results that every evaluation has."""


class ModeKeys(StrEnum):
    """For what a model_fn is called.

    Attributes:
        TRAIN: for a step of the training.
        EVAL: for the loss and the metrics.
        PREDICT: for predictions, without labels.

    Example:
        >>> ModeKeys.PREDICT == "infer", str(ModeKeys.TRAIN)
        (True, 'train')
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@runtime_checkable
class Metric(Protocol):
    """A metric of Keras, as far as an evaluation uses it."""

    def update_state(self, *args: Any, **kwargs: Any) -> object: ...
    def result(self) -> Any: ...
    def reset_state(self) -> None: ...


@runtime_checkable
class Exporter(Protocol):
    """What is called after an evaluation, with its results.

    Attributes:
        name: of the directory below ``export`` that it gets.

    Example:
        >>> class Best:
        ...     name, losses = "best", []
        ...     def export(self, *, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        ...         self.losses.append(eval_result["loss"])
        ...         return min(self.losses)
        >>> isinstance(Best(), Exporter)
        True
    """

    @property
    def name(self) -> str:
        """The name of its directory below ``export``."""
        ...

    def export(
        self, *, estimator: Any, export_path: str, checkpoint_path: str, eval_result: MetricResults, is_the_final_export: bool
    ) -> Any:
        """Export what was evaluated.

        Args:
            estimator: the `Estimator`.
            export_path: the directory of this exporter, which need not exist.
            checkpoint_path: of the checkpoint that was evaluated.
            eval_result: the metrics by name.
            is_the_final_export: whether `max_steps` are done; False where the data, or a listener, end the training before.

        Returns:
            What `train_and_evaluate` is to return for it.
        """
        ...


@dataclass(frozen=True)
class EstimatorSpec:
    """What a model_fn returns.

    Args:
        mode: as the model_fn was called with it.
        predictions: an array of shape (b, ...), or a dict of such arrays; needed in PREDICT.
        loss: a scalar: the mean over the b rows of the batch of this replica. The training weighs replicas by their rows, so do not
            divide it by their number. Needed in TRAIN and EVAL.
        train_op: what minimizes the loss over all trainable variables that the model_fn has made: a Keras optimizer or an `sd.Optimizer`;
            needed in TRAIN.
        eval_metric_ops: Keras metrics by name; the model_fn has called `update_state` of each.
        export_outputs, training_chief_hooks, training_hooks, scaffold, evaluation_hooks, prediction_hooks: as TensorFlow's, to be left
            out: there are no sessions and graphs.

    Raises:
        InvalidArgumentError: something that the mode needs is missing, the loss is no scalar, a metric has a name of its own, or something
            was given that must be left out.
        TypeError: the train_op is no optimizer, or a metric is none of Keras.

    Example:
        >>> EstimatorSpec(ModeKeys.PREDICT, predictions={"y": 1.0}).predictions
        {'y': 1.0}
    """

    mode: str
    predictions: Tree = None
    loss: Tree = None
    train_op: Optimizer | KerasOptimizer | None = None
    eval_metric_ops: Mapping[str, Metric] | None = None
    export_outputs: None = None
    training_chief_hooks: None = None
    training_hooks: None = None
    scaffold: None = None
    evaluation_hooks: None = None
    prediction_hooks: None = None

    def __post_init__(self) -> None:
        for name in ("export_outputs", "training_chief_hooks", "training_hooks", "scaffold", "evaluation_hooks", "prediction_hooks"):
            if vars(self)[name] is not None:
                raise InvalidArgumentError(f"EstimatorSpec has {name}, but there are no sessions and graphs here. Leave it out.")
        needed = {ModeKeys.TRAIN: ("loss", "train_op"), ModeKeys.EVAL: ("loss",), ModeKeys.PREDICT: ("predictions",)}
        mode = ModeKeys(known_word(self.mode, "mode", [mode.value for mode in ModeKeys]))
        for name in needed[mode]:
            if vars(self)[name] is None:
                raise InvalidArgumentError(f"Missing {name}: an EstimatorSpec with mode={str(self.mode)!r} needs it.")
        if self.loss is not None and jnp.size(self.loss) > 1:  # of a replica without rows it may have none
            raise InvalidArgumentError(
                f"The loss of an EstimatorSpec has shape {jnp.shape(self.loss)}; expected a scalar, such as keras.ops.mean(losses)."
            )
        _require_optimizer(self.train_op)
        _require_metrics(self.eval_metric_ops or {})


@dataclass(frozen=True)
class TrainSpec:
    """What `train_and_evaluate` trains on.

    Args:
        input_fn: returns the dataset; see `Estimator`.
        max_steps: the number of the last step; default None: to the end of the data.
        hooks: to be left out; see `Estimator.train`.
        saving_listeners: called at each checkpoint.

    Raises:
        TypeError: input_fn is no function, or a listener none.
        InvalidArgumentError: max_steps is below 1, or there are hooks.

    Example:
        >>> import simdist as sd
        >>> TrainSpec(lambda: sd.Dataset.from_tensors(([1.0], [1.0])), max_steps=20).max_steps
        20
    """

    input_fn: InputFunction
    max_steps: int | None = None
    hooks: Sequence[Any] | None = None
    saving_listeners: Sequence[CheckpointSaverListener] = ()

    def __post_init__(self) -> None:
        _require_function(self.input_fn)
        if self.max_steps is not None:
            whole_number(self.max_steps, "max_steps", 1)
        refuse_hooks(self.hooks)
        object.__setattr__(self, "saving_listeners", checked_listeners(self.saving_listeners))


@dataclass(frozen=True)
class EvalSpec:
    """What `train_and_evaluate` evaluates on, and when.

    Args:
        input_fn: returns the dataset; see `Estimator`.
        steps: batches of an evaluation; None: all. Default 100.
        name: of the evaluation; its results go to the directory ``eval_<name>``.
        hooks: to be left out.
        exporters: an `Exporter`, or several: called after each evaluation. What they return is returned.
        start_delay_secs: virtual seconds, after which an evaluator begins. Default 120.
        throttle_secs: virtual seconds, before which no other evaluation begins. Default 600.

    Raises:
        TypeError: input_fn is no function, or an exporter has no name and no export.
        InvalidArgumentError: a number that makes no sense, hooks, or two exporters of one name.

    Example:
        >>> import simdist as sd
        >>> EvalSpec(lambda: sd.Dataset.from_tensors(([1.0], [1.0])), throttle_secs=60).steps
        100
    """

    input_fn: InputFunction
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] | None = None
    exporters: Exporter | Iterable[Exporter] | None = None
    start_delay_secs: float = 120
    throttle_secs: float = 600
    all_exporters: tuple[Exporter, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        _require_function(self.input_fn)
        if self.steps is not None:
            whole_number(self.steps, "steps", 1)
        if self.name is not None and not isinstance(cast("object", self.name), str):
            raise TypeError(f"name is {self.name!r}; expected the name of the evaluation")
        number(self.start_delay_secs, "start_delay_secs")
        number(self.throttle_secs, "throttle_secs")
        refuse_hooks(self.hooks)
        object.__setattr__(self, "all_exporters", _checked_exporters(self.exporters))


def refuse_hooks(hooks: object) -> None:
    """Refuse hooks of sessions.

    Raises:
        InvalidArgumentError: there are some.
    """
    if hooks:
        raise InvalidArgumentError(
            f"hooks={hooks!r}: there are no sessions whose runs they could follow. Leave them out; saving_listeners= are called at each "
            "checkpoint, and can end the training."
        )


def _require_function(input_fn: object) -> None:
    if not callable(input_fn):
        raise TypeError(f"input_fn is {input_fn!r}; expected a function that returns an sd.Dataset")


def _require_optimizer(train_op: object) -> None:
    if train_op is not None and not isinstance(train_op, Optimizer) and not is_keras_optimizer(train_op):
        raise TypeError(
            f"train_op is {train_op!r}; expected what minimizes the loss: keras.optimizers.SGD(0.1) or another optimizer of Keras, or an "
            "sd.Optimizer"
        )


def _require_metrics(metrics: Mapping[str, object]) -> None:
    for name, metric in metrics.items():
        if name in RESERVED:
            raise InvalidArgumentError(f"A metric has the name {name!r}, which every evaluation gives by itself. Take another name.")
        if not isinstance(metric, Metric):
            raise TypeError(
                f"eval_metric_ops has {name!r}: {metric!r}; expected a metric of Keras, whose update_state the model_fn has called"
            )


def _checked_exporters(given: object) -> tuple[Exporter, ...]:
    if given is None:
        return ()
    exporters = (
        [given] if isinstance(given, Exporter) else list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else [given]
    )
    checked: list[Exporter] = []
    for exporter in exporters:
        if not isinstance(exporter, Exporter):
            raise TypeError(f"exporters has {exporter!r}; expected objects with a name and a method export(estimator, export_path, ...)")
        if any(exporter.name == other.name for other in checked):
            raise InvalidArgumentError(f"exporters has two of the name {exporter.name!r}, which would share a directory. Rename one.")
        checked.append(exporter)
    return tuple(checked)
