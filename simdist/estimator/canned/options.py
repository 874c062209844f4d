"""What a canned Estimator was made with, checked: columns, optimizers, hidden layers; and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from simdist.arguments import flag, known_word, listed, number, shown, whole_number
from simdist.errors import InvalidArgumentError
from simdist.feature_column.base import CategoricalColumn, DenseColumn, FeatureColumn
from simdist.variables.keras_objects import (
    KerasOptimizer,
    core_of,
    exclude_the_same_names,
    exclusions_by_identity,
    is_keras_optimizer,
)
from simdist.variables.optimizer import Optimizer
from simdist.variables.sparse_embedding import COMBINERS

__all__ = [
    "Activation",
    "DeepOptions",
    "OptimizerLike",
    "checked_columns",
    "checked_combiner",
    "optimizer_maker",
    "refuse_options",
]

OptimizerLike: TypeAlias = str | KerasOptimizer | Optimizer | Callable[[], Any]
"""The name of an optimizer, one of Keras, an `sd.Optimizer`, or a function without arguments that makes one."""

Activation: TypeAlias = Any
"""What Keras takes for an activation: a function, or its name."""

OPTIMIZERS = {"Adagrad": "Adagrad", "Adam": "Adam", "Ftrl": "Ftrl", "RMSProp": "RMSprop", "SGD": "SGD"}


@dataclass(frozen=True)
class DeepOptions:
    """The hidden layers of a deep network.

    Attributes:
        hidden_units: units of each.
        activation_fn: of each.
        dropout: the share of units that training leaves out; None: none.
        batch_norm: whether each is normalized.
    """

    hidden_units: tuple[int, ...]
    activation_fn: Activation
    dropout: float | None
    batch_norm: bool

    @classmethod
    def checked(cls, hidden_units: Sequence[int], activation_fn: Activation, dropout: float | None, batch_norm: bool) -> DeepOptions:
        """The options.

        Raises:
            TypeError: units that are no integers, or another wrong type.
            InvalidArgumentError: units below 1, or a share that is none.
        """
        if dropout is not None:
            number(dropout, "dropout", below=1.0)
        units = tuple(whole_number(size, "hidden_units", 1) for size in listed(hidden_units, "hidden_units", "the units of each layer"))
        require_activation(activation_fn)
        return cls(units, activation_fn, dropout, flag(batch_norm, "batch_norm"))


def require_activation(given: Activation) -> None:
    """Refuse what is no activation of Keras: a layer would, when the training begins.

    Raises:
        InvalidArgumentError: it is none.
    """
    if given is None or callable(given) or (isinstance(given, str) and given == "relu"):
        return
    from simdist import keras  # most networks have the default, and an import of simdist does not load it

    try:
        keras.activations.get(given)
    except Exception as error:
        raise InvalidArgumentError(
            f"activation_fn={shown(given)} is no activation of Keras; expected a name such as 'relu' or 'tanh', or a function."
        ) from error


def checked_columns(given: Iterable[FeatureColumn], deep: bool) -> tuple[FeatureColumn, ...]:
    """The columns of a model.

    Args:
        given: of any order, or a set.
        deep: whether the model takes floats alone.

    Returns:
        The columns by name: their order decides nothing.

    Raises:
        TypeError: something else.
        InvalidArgumentError: no column, two of one name, or categories where only floats can be.
    """
    several = list(given) if isinstance(given, Set) else given  # sorted below
    columns: list[object] = [several] if isinstance(several, FeatureColumn) else listed(several, "feature_columns", "feature columns")
    checked: list[FeatureColumn] = []
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise TypeError(f"feature_columns has {column!r}; expected columns of sd.feature_column, such as numeric_column('age')")
        if deep and isinstance(column, CategoricalColumn) and not isinstance(column, DenseColumn):
            raise InvalidArgumentError(
                f"The column {column.name!r} gives categories, and a deep network takes floats. Wrap it: indicator_column(column), or "
                "embedding_column(column, dimension)."
            )
        if any(column.name == other.name for other in checked):
            raise InvalidArgumentError(f"feature_columns has two columns of the name {column.name!r}.")
        checked.append(column)
    if not checked:
        raise InvalidArgumentError("feature_columns is empty; expected at least one column of sd.feature_column.")
    return tuple(sorted(checked, key=lambda column: column.name))


def checked_combiner(given: str) -> str:
    """How several categories of a row are combined.

    Raises:
        InvalidArgumentError: in no way that is known.
    """
    return known_word(given, "sparse_combiner", COMBINERS)


def optimizer_maker(given: OptimizerLike, learning_rate: float | None) -> Callable[[], Optimizer | KerasOptimizer]:
    """A function that makes the optimizer of a training: each has one of its own.

    Args:
        given: a name, an optimizer of Keras or an `sd.Optimizer`, which are copied, or a function that makes one.
        learning_rate: of one that is given by name; None: Keras' default.

    Raises:
        InvalidArgumentError: no name of an optimizer; or one that leaves variables out of weight decay which no Estimator can have.
        TypeError: something else.
    """
    if isinstance(given, str):
        return partial(_named, known_word(given, "optimizer", OPTIMIZERS), learning_rate)
    if isinstance(given, Optimizer):
        copied = _copies_of(given.wrapped) if is_keras_optimizer(given.wrapped) else lambda: given.wrapped
        return lambda: Optimizer(copied(), given.lazy_rows)
    if is_keras_optimizer(given):
        return _copies_of(given)
    if not callable(given):
        raise TypeError(f"optimizer is {given!r}; expected a name such as 'SGD', an optimizer of Keras, an sd.Optimizer, or a function")
    return given


def _copies_of(given: KerasOptimizer) -> Callable[[], KerasOptimizer]:
    if exclusions_by_identity(core_of(given)):
        raise InvalidArgumentError(
            "optimizer was given variables that exclude_from_weight_decay(var_list=...) leaves out, and an Estimator makes variables of "
            "its own. Give their names: exclude_from_weight_decay(var_names=['bias_weights'])."
        )
    config = given.get_config()

    def copied() -> KerasOptimizer:
        made = type(given).from_config(deepcopy(config))  # a LossScaleOptimizer takes its configuration apart
        exclude_the_same_names(core_of(made), core_of(given))
        return made

    return copied


def _named(name: str, learning_rate: float | None) -> KerasOptimizer:
    from simdist import keras  # when a model is built: an import of simdist does not load it

    options = {} if learning_rate is None else {"learning_rate": learning_rate}
    return keras.optimizers.get({"class_name": OPTIMIZERS[name], "config": options})


def refuse_options(weight_column: object, loss_reduction: object) -> None:
    """Refuse what a canned Estimator cannot do here.

    Raises:
        InvalidArgumentError: weights of rows, or another reduction of the loss than the mean.
    """
    if weight_column is not None:
        raise InvalidArgumentError(f"weight_column={weight_column!r}: rows have no weights here. Leave it out, or write a model_fn.")
    if loss_reduction != "sum_over_batch_size":
        raise InvalidArgumentError(
            f"loss_reduction={loss_reduction!r}; expected 'sum_over_batch_size': the loss of a batch is a mean, so that it does not depend "
            "on the number of replicas. Leave it out, or write a model_fn."
        )
