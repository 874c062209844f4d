"""Kernels that cut lanes out of stacks, and that join stacks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from simdist.caches import bounded
from simdist.program.arrays import Arrays
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval, Bundle, BundleType

__all__ = ["LANES_AT_ONCE", "joining_kernel", "lane_kernel", "lanes_of"]

# That one kernel cuts out of a stack: its code takes the longer to compile the more there are.
LANES_AT_ONCE = 64


def lanes_of(stack: Bundle, count: int) -> list[Arrays]:
    """The numbers of each lane of a stack that is computed, or promised: these are promises too, and nobody waits here."""
    assert stack.arrays is not None
    # Few calls, because JAX lets few wait for what is being computed; a call for each lane would wait itself.
    at_once, width = min(count, LANES_AT_ONCE), len(stack.avals)
    lanes: list[Arrays] = []
    for first in range(0, count, at_once):
        start = min(first, count - at_once)  # the last call begins with lanes that are there already
        given = stack.arrays if at_once == count else (*stack.arrays, np.array(start, np.int32))
        leaves = _lanes_kernel(stack.avals, count, at_once)(*given)
        lanes += [leaves[number * width : (number + 1) * width] for number in range(first - start, at_once)]
    return lanes


@bounded("kernels that cut a stack apart", size=64)
def _lanes_kernel(stack: BundleType, count: int, at_once: int) -> Kernel:
    """The kernel that cuts lanes out of a stack of this type: the leaves of the first, then those of the next, and so on.

    Where these are not all lanes, it is given the number of the first one behind the stack.
    """

    def run(*arrays: jax.Array) -> list[jax.Array]:
        if at_once < count:
            *leaves, start = arrays
            arrays = tuple([jax.lax.dynamic_slice_in_dim(leaf, start, at_once) for leaf in leaves])
        return [leaf[number] for number in range(at_once) for leaf in arrays]

    return kernel_of("lanes", run, [*stack, Aval((), "int32")] if at_once < count else stack)


@bounded("kernels that cut out a lane", size=256)
def lane_kernel(stack: BundleType) -> Kernel:
    """The kernel that cuts one lane out of a stack of this type: of the stack, and the lane's number."""

    def run(*arrays: jax.Array) -> list[jax.Array]:
        *leaves, number = arrays
        return [jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False) for leaf in leaves]

    return kernel_of("lane", run, [*stack, Aval((), "int32")])


@bounded("kernels that join stacks", size=64)
def joining_kernel(stacks: tuple[BundleType, ...]) -> Kernel:
    """The kernel that makes one stack of some, whose lanes follow each other."""
    width = len(stacks[0])

    def run(*arrays: jax.Array) -> list[jax.Array]:
        return [jnp.concatenate(arrays[number::width]) for number in range(width)]

    return kernel_of("stacks joined", run, [aval for stack in stacks for aval in stack])
