"""Jaxprs inside jaxprs: the bodies of loops, the branches of a cond, compiled functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["inner_jaxprs"]


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation; of a closed one, what is in it.

    Example:
        >>> import jax
        >>> outer = jax.make_jaxpr(jax.jit(lambda x: x * 2 + 1))(1.0)
        >>> [[eqn.primitive.name for eqn in inner.eqns] for inner in inner_jaxprs(outer.jaxpr.eqns[0])]
        [['mul', 'add']]
    """
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(item, "jaxpr", item)
            if hasattr(inner, "eqns"):
                yield inner
