"""Products of matrices by an algorithm that XLA has on some platforms only, and not on CPUs.

A product may name its algorithm: F16_F16_F32 takes numbers of float16 and adds in float32, TF32_TF32_F32 rounds numbers of float32 first.
JAX's attention under ``mixed_float16`` names the first one. JAX refuses to lower such a program for a CPU. There the same product takes the
numbers as they are, and adds in the type that the algorithm adds in.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn

from simdist.program.jaxprs import aval_in, substituted
from simdist.program.traces import jaxpr_of

__all__ = ["for_cpus", "product_for_cpus"]

Algorithm = lax.DotAlgorithm | lax.DotAlgorithmPreset


def for_cpus(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same jaxpr, in which no product asks for an algorithm that CPUs lack.

    Example:
        >>> half = jax.ShapeDtypeStruct((2, 2), "float16")
        >>> closed = jax.make_jaxpr(lambda x: lax.dot(x, x, precision="F16_F16_F32"))(half)
        >>> [eqn.params["precision"] for eqn in for_cpus(closed).jaxpr.eqns if eqn.primitive.name == "dot_general"]
        [None]
    """
    return substituted(closed, product_for_cpus)


def product_for_cpus(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """What replaces a product by an algorithm that CPUs lack; None for any other equation, which stays."""
    algorithm = eqn.params.get("precision")
    if not isinstance(algorithm, Algorithm):
        return None
    specs = [jax.ShapeDtypeStruct(aval.shape, jnp.dtype(aval.dtype)) for aval in map(aval_in, eqn.invars)]
    out = jnp.dtype(aval_in(eqn.outvars[0]).dtype)
    if _is_on_cpus(algorithm, tuple([spec.dtype for spec in specs]), out):
        return None
    params = {**eqn.params, "precision": None, "preferred_element_type": algorithm.accumulation_type or out}
    return jaxpr_of(lambda *arrays: eqn.primitive.bind(*arrays, **params).astype(out), *specs)


@functools.cache
def _is_on_cpus(algorithm: Algorithm, given: tuple[Any, ...], out: Any) -> bool:
    """Whether JAX lowers it for CPUs: of a product of single numbers it says so at once."""
    left, right = (jax.ShapeDtypeStruct((1, 1), dtype) for dtype in given[:2])
    product = jax.jit(lambda x, y: lax.dot(x, y, precision=algorithm, preferred_element_type=out))
    try:
        product.trace(left, right).lower(lowering_platforms=("cpu",))
    except ValueError:
        return False
    return True
