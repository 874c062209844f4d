"""Variables that are overwritten with their gradients: the scales and histories of float8 layers.

What flows back to such a variable is its new value, and no derivative: Keras' optimizers assign it, and neither scale, clip nor average it.
It follows from the largest number that a layer has seen, so that the value of all replicas is the maximum of theirs, as it is that
of the steps whose gradients Keras accumulates. No mean and no sum of them is the value of one device.

Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.tracing import Tracer
from simdist.variables.gradient_sum import policy_of
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, core_of, is_keras_optimizer, overwrites
from simdist.variables.variable import Variable

__all__ = ["gradient_without_rows", "is_overwritten", "maxima_over_replicas", "require_one_worker", "require_overwritable"]


def is_overwritten(variable: Variable) -> bool:
    """Whether the gradient of a variable is its new value."""
    return variable.keras_variable is not None and overwrites(variable.keras_variable)


def maxima_over_replicas(tracer: Tracer, values: Sequence[jax.Array]) -> list[jax.Array]:
    """The largest of the new values of all replicas, element by element.

    Args:
        tracer: of the step.
        values: of this replica, of any shapes (p...).
    """
    if not values:
        return []
    maxima, *others = tracer.collective("all_gather", values, label="overwritten variables")
    for other in others:
        maxima = [jnp.maximum(one, another) for one, another in zip(maxima, other, strict=True)]
    return list(maxima)


def gradient_without_rows(tracer: Tracer, variable: Variable) -> jax.Array:
    """What a replica without rows gives as the gradient of a variable: zeros; or what no maximum follows, or the value that there is."""
    if not is_overwritten(variable):
        return jnp.zeros(variable.shape, variable.dtype)
    return variable.traced_value(tracer) if tracer.num_replicas == 1 else jnp.full(variable.shape, -jnp.inf, variable.dtype)


def require_overwritable(tracer: Tracer, optimizer: KerasOptimizer | GradientTransformation, variables: Sequence[Variable]) -> None:
    """Refuse variables that are overwritten with their gradients, where no maximum is that of one device.

    Raises:
        InvalidArgumentError: an Optax transformation would subtract them; replicas or workers take steps apart; a step does not wait
            for all replicas; or Keras overwrites variables with their moving averages, of which these have none.
    """
    if not variables:
        return
    policy, strategy = policy_of(tracer), variables[0].placement.store.strategy
    if not is_keras_optimizer(optimizer):
        _refuse(variables, "an Optax transformation takes gradients alone", "Use an optimizer of Keras")
    elif core_of(optimizer).use_ema and core_of(optimizer).ema_overwrite_frequency is not None:
        _refuse(variables, "there are no averages of them to overwrite them with", "Leave ema_overwrite_frequency out")
    if policy.local:
        _refuse(variables, "replicas that take steps of their own have others, whose average is none", "Leave sync_every out")
    if not policy.waits_for_all:
        _refuse(variables, "their maximum is that of all replicas", "Leave backup_workers out")
    if strategy is not None and strategy.steps_overlap:
        _refuse(
            variables,
            "workers that take steps apart would overwrite what the others have found",
            "Use one worker, or a synchronous strategy such as MultiWorkerMirroredStrategy",
        )


def require_one_worker(variables: Iterable[Variable]) -> None:
    """Refuse another worker for variables that are overwritten with their gradients.

    Raises:
        FailedPreconditionError: there are some.
    """
    names = _names([variable for variable in variables if is_overwritten(variable)])
    if names:
        raise FailedPreconditionError(
            f"No worker can join: {names} would be overwritten by the steps of each (float8), and what the others have found would be "
            "lost. Train with one worker, or with a synchronous strategy."
        )


def _refuse(variables: Sequence[Variable], why: str, instead: str) -> None:
    raise InvalidArgumentError(
        f"The gradients of {_names(variables)} are their new values (model.quantize('float8') made them so), and {why}. {instead}, or "
        "train without float8."
    )


def _names(variables: Sequence[Variable]) -> str:
    return ", ".join([variable.name for variable in variables[:3]]) + (", ..." if len(variables) > 3 else "")
