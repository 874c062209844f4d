"""Kernels of linked programs: what joins the pieces that a computation needs, computes, and cuts its results; and what applies an update.

The replicas of a step mostly have one program, with the same pieces in the same places. JAX takes ten milliseconds to trace their
kernels, so those of one replica are kept for the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval
from simdist.runtime.updating import piece_of
from simdist.variables.shard_range import ShardRange

__all__ = ["KnownKernels", "as_they_are"]

Joined: TypeAlias = "tuple[Sequence[int], int]"
"""An input of a computation: which arrays are its pieces, and the axis along which they lie."""


def as_they_are(*arrays: jax.Array) -> Sequence[jax.Array]:
    """The computation of what only packs."""
    return arrays


class KnownKernels:
    """The kernels of replicas that are linked one after the other, against one layout.

    Example:
        >>> kernels, one = KnownKernels(), Aval((2,), "float32")
        >>> first = kernels.cut("sum", lambda x: [x], [([0, 1], 0)], [(0, None)], [one, one])
        >>> first.out_avals
        (float32[4],)
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Kernel] = {}

    def get(self, key: Hashable, make: Callable[[], Kernel]) -> Kernel:
        """The kernel of an earlier replica; made now where there is none."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def cut(
        self,
        name: str,
        function: Callable[..., Sequence[jax.Array]],
        inputs: Sequence[Joined],
        outputs: Sequence[tuple[int, ShardRange | None]],
        avals: Sequence[Aval],
    ) -> Kernel:
        """The kernel of a computation between arrays that are pieces of its inputs, and pieces of its results.

        Args:
            name: what it is, for people.
            function: the computation.
            inputs: of the computation.
            outputs: of the kernel: of each the number of a result, and which part of it; None: all.
            avals: the shapes and dtypes of the kernel's arrays.
        """

        def run(*arrays: jax.Array) -> list[jax.Array]:
            def joined(pieces: Sequence[int], axis: int) -> jax.Array:
                parts = [arrays[piece] for piece in pieces]
                return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=axis)

            results = function(*[joined(*given) for given in inputs])
            return [piece_of(results[number], part) for number, part in outputs]

        key = name, function, tuple([(*pieces, axis) for pieces, axis in inputs]), tuple(outputs), tuple(avals)
        return self.get(key, lambda: kernel_of(name, run, avals))
