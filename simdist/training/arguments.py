"""Arguments that fit, evaluate and predict refuse: overridden methods of Keras' loop, and options that have no effect here.

Everything is refused before anything runs, with what to do instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import jax
import keras
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.strategies.base import Strategy
from simdist.training.keras_model import AUTO, KerasArgument, StrategyModel, Verbose, strategy_of
from simdist.variables.handles import adopted
from simdist.variables.keras_objects import GradientTransformation
from simdist.variables.optimizer import Optimizer

__all__ = [
    "compile_arguments",
    "explaining_fixed_batches",
    "has_own_step",
    "made_outside",
    "require_compile_options",
    "require_inherited",
    "require_no_strategy_inside",
    "require_numbers",
    "require_options",
]

NOT_CALLED = {"fit": "make_train_function", "evaluate": "make_test_function", "predict": "make_predict_function"}
"""Methods that Keras' loops call and these do not."""

RETURNED = {
    "train_step": "logs and the new state",
    "test_step": "logs and the new state",
    "predict_step": "outputs and the new values of the variables that are not trained",
}
"""What a step of the user's own returns."""

OF_A_STEP = ("train_step", "compute_metrics", "compute_loss_and_updates", "stateless_compute_loss")
"""Where one of these is the user's own, a step is what ``train_step`` does. (compute_loss is called either way.)"""


def require_inherited(model: StrategyModel, caller: str) -> None:
    """Refuse an overridden method that this loop would not call, or one that does not take the state.

    Raises:
        FailedPreconditionError: one is.
    """
    name = NOT_CALLED[caller]
    if _is_own(model, name):
        raise FailedPreconditionError(
            f"{type(model).__name__} overrides {name}, but {caller} runs steps on a strategy's tasks, not in a loop of its own. Override "
            f"{name.split('_')[1]}_step instead, or write the loop with @sd.function."
        )
    _require_state(model, f"{name.split('_')[1]}_step")


def _require_state(model: StrategyModel, name: str) -> None:
    """Refuse a step of the user's own without the state, as Keras has it on other backends.

    Raises:
        FailedPreconditionError: it is one.
    """
    found = inspect.signature(getattr(model, name)).parameters.values()
    parameters = [parameter for parameter in found if parameter.default is parameter.empty]
    if len(parameters) == 1 and parameters[0].kind is not parameters[0].VAR_POSITIONAL:
        raise FailedPreconditionError(
            f"{type(model).__name__}.{name} takes {parameters[0].name} alone, as Keras has it on TensorFlow and PyTorch. On JAX it is "
            f"stateless: {name}(self, state, data) returns {RETURNED[name]}."
        )


def has_own_step(model: StrategyModel) -> bool:
    """Whether a training step is what ``train_step`` does.

    Raises:
        FailedPreconditionError: a ``train_step`` without the state, as Keras has it on other backends.
    """
    _require_state(model, "train_step")
    return overrides(model, OF_A_STEP)


def overrides(model: StrategyModel, names: Sequence[str]) -> bool:
    """Whether one of these methods of Keras' models is the user's own."""
    return any(_is_own(model, name) for name in names)


def _is_own(model: StrategyModel, name: str) -> bool:
    return name in vars(model) or getattr(type(model), name) is not getattr(keras.Model, name)


def made_outside(model: StrategyModel, caller: str) -> FailedPreconditionError:
    """The error of a call in a scope to a model that was created outside of every scope, and would train on one device."""
    return FailedPreconditionError(
        f"{caller} was called in strategy.scope(), but the model {model.name!r} was made outside of every scope, so it belongs to no "
        "strategy. Make and compile the model inside `with strategy.scope():`; to use it without a strategy, leave the scope first."
    )


def strategy_inside(model: StrategyModel) -> Strategy | None:
    """The strategy to which all variables of a model belong; None where it has others, or none."""
    variables = [adopted(variable) for variable in model.variables]
    owners = [None if variable is None else cast("Strategy | None", variable.placement.store.strategy) for variable in variables]
    return owners[0] if owners and all(owner is owners[0] for owner in owners) else None


def require_no_strategy_inside(model: StrategyModel) -> None:
    """Refuse variables of a strategy in a model that was created outside of every scope.

    Raises:
        FailedPreconditionError: its layers, its optimizer or its metrics have some.
    """
    optimizer = getattr(model, "optimizer", None)
    parts = {
        "of layers that were": model.variables,
        "with an optimizer that was": [] if optimizer is None else optimizer.variables,
        "with metrics that were": model.simdist_variables_of_metrics(),
    }
    for how, variables in parts.items():
        foreign = next((variable for variable in variables if adopted(variable) is not None), None)
        if foreign is not None:
            raise FailedPreconditionError(
                f"The model {model.name!r} was made outside strategy.scope(), {how} made inside: {foreign.path!r} belongs to a strategy. "
                "Make and compile the model inside the scope, too."
            )


def require_numbers(model: StrategyModel, caller: str) -> None:
    """Refuse a call that gives numbers where none are computed.

    Raises:
        FailedPreconditionError: numerics="off".
    """
    if strategy_of(model).engine.numerics == "off":
        raise FailedPreconditionError(f'{caller}: numerics="off" computes no numbers. Leave it out, or use numerics="deferred".')


@contextmanager
def explaining_fixed_batches(model: StrategyModel, features: Tree) -> Iterator[None]:
    """Add a note to an error of Keras about batches of another size than those that the model is made for.

    Args:
        model: which is called inside.
        features: what it is called with.
    """
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:  # the last where Keras was about to build the model with this batch
        inputs: Sequence[keras.KerasTensor] = keras.tree.flatten(getattr(model, "inputs", None) or [])
        fixed = next((tensor.shape[0] for tensor in inputs if tensor.shape and tensor.shape[0] is not None), None)
        rows = next((leaf.shape[0] for leaf in jax.tree_util.tree_leaves(features) if getattr(leaf, "shape", ())), fixed)
        replicas = strategy_of(model).num_replicas_in_sync
        if fixed is not None and rows != fixed and replicas > 1:
            error.add_note(
                f"{model.name} is made for batches of {fixed} rows, and was called with {rows}. In training each of {replicas} replicas "
                f"calls it with its part of a batch: give fit batches of {fixed * replicas} rows. evaluate and predict call it with whole "
                f"batches, which have to be of {fixed} rows; in fit, validation_batch_size={fixed} says so."
            )
        raise


def require_compile_options(arguments: dict[str, KerasArgument], has_closures: bool = False) -> None:
    """Steps under a strategy are always traced and compiled, one for each batch.

    Args:
        arguments: of compile.
        has_closures: whether the strategy sends steps to workers, so that their number in a closure may be chosen.

    Raises:
        InvalidArgumentError: something else was asked for.
        TypeError: an optimizer that is not one of Keras.
    """
    optimizer = cast(object, arguments.get("optimizer"))
    if isinstance(optimizer, (Optimizer, GradientTransformation)):
        kind = "an sd.Optimizer" if isinstance(optimizer, Optimizer) else "a transformation of Optax"
        raise TypeError(
            f"compile takes an optimizer of Keras, such as keras.optimizers.SGD(0.1), and got {kind}. Give that of Keras as it is; what "
            "sd.Optimizer adds (Optax, lazy_rows) is for training loops of your own."
        )
    count = arguments.get("steps_per_execution", 1)
    if count == AUTO and not has_closures:
        raise InvalidArgumentError(
            f"steps_per_execution={AUTO!r} chooses how many steps go to a worker at once, and this strategy sends none. Leave it out."
        )
    if count != AUTO and not _is_count(count, 1):
        also = f", or {AUTO!r}" if has_closures else ""
        raise InvalidArgumentError(f"steps_per_execution={count!r} is not a number of steps; expected an integer from 1{also}.")


def compile_arguments(args: tuple[KerasArgument, ...], options: dict[str, KerasArgument]) -> dict[str, KerasArgument]:
    """The arguments of ``compile``, by name."""
    return inspect.signature(keras.Model.compile).bind(None, *args, **options).arguments


def require_options(verbose: Verbose, epochs: int = 1, initial_epoch: int = 0, **counts: int | None) -> None:
    """Check arguments that are numbers or words.

    Args:
        verbose, epochs, initial_epoch: as given to fit.
        counts: sizes of batches and numbers of steps, by name; None is always allowed.

    Raises:
        InvalidArgumentError: not one that means anything.
    """
    if not isinstance(cast("object", verbose), (str, int, np.number, np.bool_)) or verbose not in ("auto", 0, 1, 2):
        raise InvalidArgumentError(f'verbose={verbose!r} is not known; expected "auto", 0 (silent), 1 (a bar) or 2 (a line per epoch).')
    for name, value in (("epochs", epochs), ("initial_epoch", initial_epoch)):
        if not _is_count(value, 0):
            raise InvalidArgumentError(f"{name}={value!r} is not a number of epochs; expected an integer from 0.")
    for name, value in counts.items():
        if value is not None and not _is_count(value, 1):
            raise InvalidArgumentError(f"{name}={value!r} must be 1 or more, and a whole number; or leave it out.")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)
