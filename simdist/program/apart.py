"""Functions that XLA compiles as if they stood alone, wherever they stand.

XLA puts operations into one loop (*fusion*), which is most of what makes compiled code fast. But which ones depends on what stands around
them, and it changes last bits: a product that is fused with an addition is not rounded (one instruction, fused multiply-add), and a sum
that is fused with what feeds it may add in another order. A barrier (`jax.lax.optimization_barrier`) does not help: on CPUs, XLA takes it
away before it fuses. A call does, if XLA may not inline it. What is called is a computation of its own, with the operations, the
fusions and the machine code that it has as a program. So a kernel has the same bits in a scan, in a loop over replicas, or in
a larger kernel as by itself, and is as fast there as XLA can make it.

In one place XLA does not ask: a loop that touches few bytes (a kilobyte; under JAX 0.12 more) becomes one function, with all that it
calls, and LLVM fuses products and additions in it as it likes. It can do so only with operations that it can write into a function itself.
A sort is none, so a loop that may come to one keeps its calls (`not_in_one_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, JaxprEqn

from simdist.program.jaxprs import substituted

__all__ = ["compiled_apart", "inlined", "looped", "not_in_one_function"]

INLINEABLE = "inlineable"
"""The attribute of a call that XLA asks before it inlines."""
APART, BARRIER = "compiled_apart", "barrier_around_apart"
"""The names of calls, by which `inlined` knows them."""


def compiled_apart(function: Callable[..., Sequence[jax.Array]]) -> Callable[..., Sequence[jax.Array]]:
    """The same function; inside of a larger computation, XLA compiles it as if it stood alone.

    On other platforms than CPUs, barriers stand around it: there XLA keeps them, and fuses nothing over them.

    Args:
        function: of arrays.

    Example:
        >>> import jax.numpy as jnp
        >>> apart = compiled_apart(lambda x: [3 * x])
        >>> program = jax.jit(lambda x: apart(x + 1)[0] + 1).lower(jnp.ones(2)).compile().as_text()
        >>> [line.split("=")[0].strip() for line in program.splitlines() if " call(" in line]
        ['%jit_compiled_apart_.1']
    """

    def compiled_apart(*arrays: jax.Array) -> Sequence[jax.Array]:
        with set_xla_metadata(**{INLINEABLE: "true"}):  # what it calls, and what JAX lowers into calls, is inlined as ever
            return function(*arrays)

    compiled = jax.jit(compiled_apart)

    def call(*arrays: jax.Array) -> Sequence[jax.Array]:
        if jax.default_backend() != "cpu":
            return barrier_around_apart(*compiled(*barrier_around_apart(*arrays)))
        with set_xla_metadata(**{INLINEABLE: "false"}):
            return compiled(*arrays)

    return call


def not_in_one_function(index: jax.Array) -> jax.Array:
    """The same index; a loop that may come here is not made one function by XLA, so what it calls is compiled apart.

    It takes the time of a small sort: it belongs where a loop seldom comes, or never.

    Args:
        index: a whole number.

    Example:
        >>> import numpy as np
        >>> not_in_one_function(np.uint32(5))
        Array(5, dtype=uint32)
    """
    return jax.lax.sort(jax.lax.concatenate([jax.lax.reshape(index, (1,)), jax.lax.reshape(index + 1, (1,))], 0))[0]


def looped(function: Callable[[Sequence[jax.Array]], Sequence[jax.Array]], stacks: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Call a function for each row of some stacks, as ``jax.lax.map`` does, but never as one function (`not_in_one_function`).

    Args:
        function: of one row of each stack.
        stacks: arrays of one length, which is their first axis.

    Returns:
        Its results, stacked.

    Example:
        >>> import jax.numpy as jnp
        >>> looped(lambda rows: [rows[0] * rows[1]], [jnp.arange(3), jnp.arange(3)])
        [Array([0, 1, 4], dtype=int32)]
    """
    length = len(stacks[0])

    def turn(_: None, index: jax.Array) -> tuple[None, Sequence[jax.Array]]:
        index = jax.lax.cond(index >= length, not_in_one_function, lambda index: index, index)  # never, but XLA does not know
        return None, function([jax.lax.dynamic_index_in_dim(stack, index, keepdims=False) for stack in stacks])

    return jax.lax.scan(turn, None, jnp.arange(length, dtype=np.uint32))[1]


@jax.jit
def barrier_around_apart(*arrays: jax.Array) -> Sequence[jax.Array]:
    """The same arrays, over which XLA fuses nothing; a call with a name, so that `inlined` can leave it out."""
    return jax.lax.optimization_barrier(arrays)


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with the operations of what is `compiled_apart` among its own: what it computes, whatever XLA compiles by itself.

    It is the same on all platforms of JAX, without the barriers that some have.

    Example:
        >>> import jax.numpy as jnp
        >>> apart = compiled_apart(lambda x: [3 * x])
        >>> closed = jax.make_jaxpr(lambda x: apart(apart(x)[0] + 1))(jnp.ones(2))
        >>> [eqn.primitive.name for eqn in closed.jaxpr.eqns], [eqn.primitive.name for eqn in inlined(closed).jaxpr.eqns]
        (['jit', 'add', 'jit'], ['mul', 'add', 'mul'])
    """
    return substituted(closed, _operations)


def _operations(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """What a call does whose operations are to stand in its place; None: the equation stays."""
    if eqn.primitive.name != "jit" or eqn.params["name"] not in (APART, BARRIER):
        return None
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    if eqn.params["name"] == APART:
        return closed
    return ClosedJaxpr(closed.jaxpr.replace(eqns=[], outvars=closed.jaxpr.invars), [])
