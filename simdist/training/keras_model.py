"""Keras' models as this package uses them: the class that ours derive from, and the words for what they are called with.

Keras carries no types. What it keeps private of a model is touched by the methods here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import keras
from keras.src.callbacks import CallbackList

from simdist.program.arrays import Array, Tree, is_array
from simdist.program.function import StepFunction
from simdist.program.narrowing import require_numbers
from simdist.strategies.base import Strategy
from simdist.training.metric_logs import MetricLog
from simdist.training.missing_targets import explained_without_targets
from simdist.training.position import TrainingPosition
from simdist.variables.optimizer import Optimizer

__all__ = [
    "AUTO",
    "Callbacks",
    "Examples",
    "ForwardStep",
    "KerasArgument",
    "Logs",
    "StrategyModel",
    "Tensor",
    "TrainingState",
    "Verbose",
    "fixed_steps_per_execution",
    "strategy_of",
]

AUTO = "auto"
"""As steps_per_execution: as many steps as keep the messages of closures a small part of the time."""

Tensor: TypeAlias = Any
"""What Keras' functions take for an array, and give: an array of JAX, or a placeholder of one."""

KerasArgument: TypeAlias = Any
"""What a method of Keras takes, or gives: it is passed on as it is."""

Examples: TypeAlias = Tree
"""What is read to train, evaluate or predict: a dataset, or arrays in tuples, lists and dicts; targets and weights likewise."""

Callbacks: TypeAlias = CallbackList | keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None
"""The callbacks of a call: Keras' list of them, one, or several."""

Verbose: TypeAlias = str | int
"""How much a call prints: "auto", 0, 1 or 2."""

Logs: TypeAlias = dict[str, Any]
"""Loss and metrics by name: numbers, or what a step of the user's own says."""


@dataclass(frozen=True)
class ForwardStep:
    """The step of an evaluation or a prediction.

    Attributes:
        step: traced.
        may_be_split: whether replicas or workers take batches, or one place takes them in turn.
        given: the numbers of the variables, among those that are not trained, whose values it is given; in turn, also returns.
        changed: those of them that it changes, for layers to keep.
    """

    step: StepFunction
    may_be_split: bool
    given: tuple[int, ...]
    changed: tuple[int, ...] = ()


@dataclass
class TrainingState:
    """What a model remembers of its training under a strategy.

    Attributes:
        strategy: in whose scope the model was made; None where that was outside of every scope.
        optimizer: the model's, with slots that the strategy made.
        position: where the training stands that runs.
        evaluation_executions: batches of an evaluation between two calls of hooks; None: as of a training.
        is_built: whether the variables of the compiled loss and metrics were made.
        train_step: the traced step of `fit`, with the variables that were trainable then, by identity.
        forward_steps: those of evaluation and prediction, each with the variables that were trainable then, by identity.
        metric_logs: of a step of the user's own, which of its logs are results of metrics.
    """

    strategy: Strategy | None
    optimizer: Optimizer | None = None
    position: TrainingPosition | None = None
    evaluation_executions: int | None = None
    is_built: bool = False
    train_step: tuple[list[int], StepFunction] | None = None
    forward_steps: dict[str, tuple[list[int], ForwardStep]] = field(default_factory=dict[str, tuple[list[int], ForwardStep]])
    metric_logs: dict[str, MetricLog] = field(default_factory=dict[str, MetricLog])

    def forget_steps(self) -> None:
        """Delete the steps of a model that was compiled again."""
        self.is_built, self.train_step = False, None
        self.forward_steps.clear()


class StrategyModel(keras.Model):
    """A Keras model that has a `TrainingState`."""

    simdist_state: TrainingState

    @property
    def simdist_strategy(self) -> Strategy | None:
        """The strategy that the model belongs to."""
        return self.simdist_state.strategy

    def simdist_build(self, data: Tree) -> None:
        """Make the variables of the model, of its loss and of its metrics, for a batch of this shape."""
        for leaf in keras.tree.flatten(data):
            if is_array(leaf):
                require_numbers(leaf.dtype.name, "a batch")  # Keras' own error does not say what has the dtype
        with explained_without_targets(self.name, keras.utils.unpack_x_y_sample_weight(data)[1]):
            self._symbolic_build(data_batch=data)

    def simdist_has_layers(self) -> bool:
        """Whether all layers have their variables: a model whose layers make theirs at its first call may say before that it is built."""
        return bool(self.built) and all(layer.built for layer in self.simdist_layers())

    def simdist_layers(self) -> Sequence[keras.layers.Layer]:
        """All layers, also those inside of others; not the model itself."""
        return self._flatten_layers(include_self=False)

    def simdist_variables_of_metrics(self) -> Sequence[keras.Variable]:
        """Those of all metrics, also of those that compile was given, and that Keras only knows once it has built the model."""
        given = self._compile_metrics
        unbuilt = [] if given is None or given.built else keras.tree.flatten([given._user_metrics, given._user_weighted_metrics])
        metrics = [*self.metrics, *[metric for metric in unbuilt if isinstance(metric, keras.metrics.Metric)]]
        return [variable for metric in metrics for variable in metric.variables]

    def simdist_build_slots(self) -> None:
        """Make the variables of the optimizer, if those exist that it trains."""

    def simdist_loss(self, x: Tree, y: Tree, y_pred: Tree, sample_weight: Tree, training: bool) -> Tensor:
        """The compiled loss, or what the user's own ``compute_loss`` gives, which may know no `training`."""
        with explained_without_targets(self.name, y):
            return self._compute_loss(x, y, y_pred, sample_weight, training=training)

    def simdist_update_metrics(self, loss: Array, rows: int, y: Tree, y_pred: Tree, sample_weight: Tree) -> None:
        """Count a batch of rows in the mean loss, and in the compiled metrics."""
        self._loss_tracker.update_state(loss, sample_weight=rows)
        if self._compile_metrics is not None:
            with explained_without_targets(self.name, y):
                self._compile_metrics.update_state(y, y_pred, sample_weight)

    def simdist_forward(self, x: Tree, training: bool = False) -> Tree:
        """The outputs for x. A `call` without the argument `training` says itself what layers inside do, in training too, as in Keras."""
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def simdist_listed(self, logs: Logs) -> float | list[float]:
        """Loss and metrics in their order, as ``evaluate`` returns them; a loss alone is no list."""
        return self._flatten_metrics_in_order(logs)


def fixed_steps_per_execution(model: StrategyModel) -> int | None:
    """The number of steps that a model was compiled for; None: it is to be chosen."""
    return None if model.steps_per_execution == AUTO else int(model.steps_per_execution)


def strategy_of(model: StrategyModel) -> Strategy:
    """The strategy of a model that has one."""
    strategy = model.simdist_state.strategy
    assert strategy is not None
    return strategy
