"""Traces of functions without numbers: the one way in which simdist asks JAX for a jaxpr, or for the shapes of results.

Ctrl-C comes anywhere, also where JAX or Keras has just opened a context for the trace. Each trace puts back what is global to the process
(`kept_state`), so that the next cell does not run in a trace of which only the half was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from simdist.process_state import kept_state
from simdist.program.arrays import Tree

__all__ = ["jaxpr_and_shapes_of", "jaxpr_of", "shapes_of"]


def jaxpr_of(function: Callable[..., Tree], *given: Tree) -> ClosedJaxpr:
    """The jaxpr of a function of such arguments.

    Args:
        function: of trees of arrays.
        given: trees of arrays, or of their shapes and dtypes.

    Example:
        >>> [str(eqn.primitive) for eqn in jaxpr_of(lambda x: 2 * x + 1, 1.0).eqns]
        ['mul', 'add']
    """
    return jaxpr_and_shapes_of(function, *given)[0]


def jaxpr_and_shapes_of(function: Callable[..., Tree], *given: Tree) -> tuple[ClosedJaxpr, Tree]:
    """The same, and the shapes and dtypes of the results, in their tree."""
    with kept_state():
        traced: Callable[..., Any] = jax.make_jaxpr(function, return_shape=True)
        return traced(*given)


def shapes_of(function: Callable[..., Tree], *given: Tree) -> Tree:
    """The shapes and dtypes of what a function gives for such arguments.

    Example:
        >>> shapes_of(lambda x: (x, x.sum()), jax.ShapeDtypeStruct((2, 3), "float32"))[1].shape
        ()
    """
    with kept_state():
        return jax.eval_shape(function, *given)
