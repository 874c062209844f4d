"""Whether metrics add up: whether a step makes of each of their variables its value plus something that does not depend on metrics.

What such a metric counts in several places, from zero, can be added up. A largest value, or a moving average, cannot; Keras does not say
which metric is of which kind, so the traced step is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from simdist.program.jaxprs import Atom, inner_jaxprs

__all__ = ["adds_up"]

UNTOUCHED = -1  # depends on no metric
MIXED = -2  # depends on metrics otherwise than by a sum
SAME = ("convert_element_type", "copy", "stop_gradient")
CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")


def adds_up(jaxpr: Jaxpr, given: Sequence[Var], results: Sequence[Atom]) -> list[bool]:
    """For each metric's variable whether its result is its value plus something that depends on none of them.

    Args:
        jaxpr: of a step.
        given: the inputs that are the values of the variables.
        results: the outputs that are their new values, in the same order.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> step = lambda total, largest, x: (total + jnp.sum(x), jnp.maximum(largest, jnp.max(x)))
        >>> traced = jax.make_jaxpr(step)(0.0, 0.0, jnp.ones(3)).jaxpr
        >>> adds_up(traced, traced.invars[:2], traced.outvars)
        [True, False]
    """
    found = _kinds(jaxpr, {var: number for number, var in enumerate(given)})
    return [_kind(result, found) == number for number, result in enumerate(results)]


def _kinds(jaxpr: Jaxpr, known: dict[Var, int]) -> dict[Var, int]:
    """Of each variable of a jaxpr the number of the metric's variable that something was added to, or `UNTOUCHED`, or `MIXED`."""
    found = dict(known)
    for eqn in jaxpr.eqns:
        for var, kind in zip(eqn.outvars, _of_equation(eqn, [_kind(atom, found) for atom in eqn.invars]), strict=True):
            if kind != UNTOUCHED:
                found[var] = kind
    return found


def _of_equation(eqn: JaxprEqn, kinds: list[int]) -> list[int]:
    touched = [kind for kind in kinds if kind != UNTOUCHED]
    if not touched:
        return [UNTOUCHED] * len(eqn.outvars)
    name = eqn.primitive.name
    if name in CALLS:
        inner = next(inner_jaxprs(eqn), None)
        if inner is not None and len(inner.invars) == len(kinds):
            found = _kinds(inner, {var: kind for var, kind in zip(inner.invars, kinds, strict=True) if kind != UNTOUCHED})
            return [_kind(atom, found) for atom in inner.outvars]
    is_sum = name in ("add", "add_any", *SAME) or (name == "sub" and kinds[1] == UNTOUCHED)
    return [touched[0] if is_sum and len(touched) == 1 else MIXED] * len(eqn.outvars)


def _kind(atom: Atom, found: dict[Var, int]) -> int:
    return UNTOUCHED if isinstance(atom, Literal) else found.get(atom, UNTOUCHED)
