"""`value_and_grad`: the value and the gradients of a function that reads variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from simdist.arguments import flag
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Tree, is_array
from simdist.program.operations import Rule, VariableHandle
from simdist.program.scope import current_scope
from simdist.program.tracing import active_tracer
from simdist.variables.handles import AnyVariable, Assignable
from simdist.variables.optimizer import variables_of
from simdist.variables.variable import Variable

__all__ = ["differentiated", "value_and_grad"]

P = ParamSpec("P")
Value = TypeVar("Value")


def value_and_grad(
    fn: Callable[P, Value], variables: Sequence[AnyVariable], has_aux: bool = False
) -> Callable[P, tuple[Value, list[jax.Array]]]:
    """A function that returns the value of `fn` and its gradients with respect to some variables.

    Args:
        fn: returns a scalar, or with `has_aux` a pair (scalar, anything). It may read any variables. Its assignments to variables
            (moving averages, metrics) become part of the step. Where `fn` reads such a variable again, it sees what this replica has
            assigned; replicas are combined after it.
        variables: `sd.Variable` or Keras variables, of shapes (p...); the gradients have their order and their shapes. One that stands
            there twice has its gradient twice. On a replica that has no rows of a batch, what is no number in the gradient of a finite
            loss is 0.
        has_aux: whether `fn` returns a pair; default False.

    Returns:
        A function of the same arguments that returns (value, gradients), or ((value, aux), gradients).

    Outside of every step it is a step of its own, traced anew in each call: put what runs often under ``@sd.function``.

    Raises:
        FailedPreconditionError: called in a plain function that a coordinator has scheduled, in rounds, after a step that has changed
            variables; or outside of every step where no numbers are computed.
        InvalidArgumentError: a variable beside one of its shards, or of whole numbers or booleans; a loss that has axes, or is not real; or
            `fn` reads a variable that it has changed by an optimizer.
        TypeError: `fn` is no function, or returns no loss, `variables` is a single one, or `has_aux` neither True nor False.

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
    return differentiated(fn, variables, has_aux)


def differentiated(
    fn: Callable[P, Value], variables: Sequence[AnyVariable], has_aux: bool = False, is_weighed: bool = False
) -> Callable[P, tuple[Value, list[jax.Array]]]:
    """As `value_and_grad`.

    Args:
        fn, variables, has_aux: as there.
        is_weighed: whether `fn` itself weighs its loss by the rows of the replica; otherwise means of Keras' losses are divided in it.
    """
    if not callable(fn):
        raise TypeError(f"value_and_grad takes a function that returns a scalar; got {type(fn).__name__}.")
    has_aux = flag(has_aux, "has_aux")
    if isinstance(variables, Assignable):
        raise TypeError("value_and_grad takes a list of variables, and got a single one. Write value_and_grad(fn, [variable]).")
    given = variables_of(variables)
    numbers = {handle: number for number, handle in enumerate(dict.fromkeys(variable.ref() for variable in given))}
    places = [numbers[variable.ref()] for variable in given]
    handles = [given[places.index(number)] for number in range(len(numbers))]
    _require_separate(handles)
    _require_derivatives(handles)

    def run(*args: P.args, **kwargs: P.kwargs) -> tuple[Value, list[jax.Array]]:
        tracer = active_tracer()
        if tracer is None:
            found = current_scope().eagerly(lambda: run(*args, **kwargs), "sd.value_and_grad", False)
            if found is None:
                raise FailedPreconditionError(
                    'sd.value_and_grad was called outside of every step, on a cluster with numerics="off", which computes no gradients to '
                    "give. Call it in a step, under @sd.function, whose time is simulated as a whole."
                )
            return found
        held_back: list[tuple[Rule, tuple[VariableHandle, ...], int]] = []

        def pure(values: list[jax.Array]) -> tuple[Tree, tuple[Tree, list[jax.Array]]]:
            held_back.clear()
            with tracer.overlay({handle.ref(): value for handle, value in zip(handles, values, strict=True)}) as overlay:
                before = tracer.in_loss
                tracer.in_loss = not is_weighed if before is None else before
                try:
                    result: Tree = fn(*args, **kwargs)
                finally:
                    tracer.in_loss = before
            value, aux = result if has_aux else (result, None)
            _require_scalar(value)
            held_back.extend((rule, targets, len(operands)) for rule, targets, operands in overlay.writes)
            return value, (aux, [operand for _, _, operands in overlay.writes for operand in operands])

        (value, (aux, operands)), gradients = jax.value_and_grad(pure, has_aux=True)([tracer.read(handle) for handle in handles])
        for rule, targets, count in held_back:
            tracer.update(rule, targets, operands[:count])
            operands = operands[count:]
        if tracer.has_no_rows:
            # What flows back from statistics of nothing is 0 times no number, though the loss is one; to rows of a table, nothing does.
            gradients = [
                gradient if handle.ref() in tracer.lookup_counts else jnp.where(jnp.isfinite(gradient) | ~jnp.isfinite(value), gradient, 0)
                for handle, gradient in zip(handles, gradients, strict=True)
            ]
        found: Tree = (value, aux) if has_aux else value
        return found, [gradients[place] for place in places]

    return run


def _require_scalar(value: Tree) -> None:
    """Refuse a loss that is not one number.

    Raises:
        InvalidArgumentError: it has axes, as the loss of each row has; or it is a whole number, a boolean, or complex.
        TypeError: there is none, or something stands beside it.
    """
    if value is None:
        raise TypeError("The function of value_and_grad returned None; expected a loss, one number. End it with return.")
    if isinstance(value, (tuple, list)):
        raise TypeError(
            f"The function of value_and_grad returned a {type(value).__name__}; expected a loss, one number. With has_aux=True it may "
            "return a pair (loss, anything)."
        )
    if is_array(value) and (shape := tuple(value.shape)):
        raise InvalidArgumentError(
            f"The function of value_and_grad returned a loss of shape {shape}; expected one number. Give the mean or the sum of it, or of "
            "the loss of each row sd.compute_average_loss(losses)."
        )
    dtype = value.dtype if is_array(value) else type(value)  # of Python a number, such as the sum of an empty list of losses
    if dtype in (bool, int, complex) or (is_array(value) and not jnp.issubdtype(dtype, jnp.floating)):
        kind = f"loss of dtype {dtype}" if is_array(value) else f"loss {value!r}"
        raise InvalidArgumentError(
            f"The function of value_and_grad returned a {kind}; expected a real number. Compute it in float32: a "
            "number of right answers has no gradient, and of a complex number one takes the absolute value."
        )


def _require_derivatives(handles: Sequence[Variable]) -> None:
    """Refuse variables whose values cannot change a little: they have no gradient."""
    for handle in handles:
        if not jnp.issubdtype(handle.dtype, jnp.inexact):
            raise InvalidArgumentError(
                f"value_and_grad was given {handle.name}, a variable of dtype {handle.dtype}, which has no gradient. Leave it out of the "
                "list, as model.trainable_variables does; the function may still read it."
            )


def _require_separate(handles: Sequence[Variable]) -> None:
    """Refuse a sharded variable beside one of its shards: its gradient would have to be divided among the two."""
    refs = {handle.ref() for handle in handles}
    for handle in handles:
        other = next((other for other in handle.overlapping() if other.ref() in refs), None)
        if other is not None:
            raise InvalidArgumentError(
                f"value_and_grad was given {handle.name} and {other.name}, which are parts of one variable. Give the whole variable, or "
                "shards."
            )
