"""`value_and_grad`: the value and the gradients of a function that reads variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from simdist.arguments import flag
from simdist.errors import FailedPreconditionError
from simdist.program.tracing import active_tracer
from simdist.variables.optimizer import as_variable

__all__ = ["value_and_grad"]


def value_and_grad(fn: Callable[..., Any], variables: Sequence[Any], has_aux: bool = False) -> Callable[..., tuple[Any, list[Any]]]:
    """A function that returns the value of `fn` and its gradients with respect to some variables.

    Args:
        fn: returns a scalar, or with `has_aux` a pair (scalar, anything). It may read any variables. Its assignments to variables
            (moving averages, metrics) become part of the step.
        variables: `sd.Variable` or Keras variables, of shapes (p...); the gradients have their order and their shapes.
        has_aux: whether `fn` returns a pair; default False.

    Returns:
        A function of the same arguments that returns (value, gradients), or ((value, aux), gradients).

    Raises:
        FailedPreconditionError: called outside a step.
        TypeError: `fn` is no function, `variables` is a single one, or `has_aux` neither True nor False.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.OneDeviceStrategy()
        >>> with strategy.scope():
        ...     v = sd.Variable([1.0, 2.0])
        >>> step = sd.function(lambda: sd.value_and_grad(lambda: (v.value**2).sum(), [v])())
        >>> value, (gradient,) = strategy.run(step)
        >>> float(value), gradient.tolist()
        (5.0, [2.0, 4.0])
    """
    if not callable(fn):
        raise TypeError(f"value_and_grad takes a function that returns a scalar; got {type(fn).__name__}.")
    has_aux = flag(has_aux, "has_aux")
    if hasattr(variables, "assign"):
        raise TypeError("value_and_grad takes a list of variables, and got a single one. Write value_and_grad(fn, [variable]).")
    handles = [as_variable(variable) for variable in variables]

    def run(*args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        tracer = active_tracer()
        if tracer is None:
            raise FailedPreconditionError("sd.value_and_grad works inside a step: put it into a function under @sd.function.")
        held_back: list[tuple[Any, tuple[Any, ...], int]] = []

        def pure(values: list[Any]) -> tuple[Any, Any]:
            held_back.clear()
            with tracer.overlay({id(handle): value for handle, value in zip(handles, values, strict=True)}) as overlay:
                result = fn(*args, **kwargs)
            value, aux = result if has_aux else (result, None)
            held_back.extend((rule, targets, len(operands)) for rule, targets, operands in overlay.writes)
            return value, (aux, [operand for _, _, operands in overlay.writes for operand in operands])

        (value, (aux, operands)), gradients = jax.value_and_grad(pure, has_aux=True)([tracer.read(handle) for handle in handles])
        for rule, targets, count in held_back:
            tracer.update(rule, targets, operands[:count])
            operands = operands[count:]
        return ((value, aux) if has_aux else value), gradients

    return run
