"""Constants: the arrays that steps have from their tracing, kept once for all replicas and workers.

A step that closes over an array (a table of embeddings, a filter) is linked for each replica, and again when variables move. All
of them read one bundle. A large array is a bundle of its own, so that programs of different replicas share it: their ranks are
in other constants.

Invariant: what is kept are copies, which nobody changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from simdist.program.arrays import Array, HostArray, jax_array
from simdist.program.operations import Program, Register
from simdist.program.values import Bundle, aval_of

__all__ = ["Constants"]

# Smaller ones cost little, and are one bundle.
LARGE_BYTES = 1 << 16


class Constants:
    """The constants of all programs of one strategy.

    Example:
        >>> def lookup(): ...
        >>> table = np.ones((256, 256), np.float32)
        >>> one, other = (Program("lookup", (), {0: table, 1: np.float32(rank)}, {}) for rank in range(2))
        >>> constants = Constants()
        >>> [bundle for _, bundle in constants.of(one)]
        [Bundle(1 arrays, 262144 bytes, computed), Bundle(1 arrays, 4 bytes, computed)]
        >>> [mine[1] is theirs[1] for mine, theirs in zip(constants.of(one), constants.of(other))]
        [True, False]
    """

    def __init__(self) -> None:
        self._whole: WeakKeyDictionary[Program, list[tuple[list[Register], Bundle]]] = WeakKeyDictionary()
        self._pieces: WeakKeyDictionary[Program, dict[object, Bundle]] = WeakKeyDictionary()

    def of(self, program: Program) -> list[tuple[list[Register], Bundle]]:
        """The bundles of a program's constants, each with the registers that it holds: the large ones first."""
        if program not in self._whole:
            large: list[tuple[list[Register], Bundle]] = []
            small: dict[Register, Array] = {}
            for register, value in program.constants.items():
                array = np.asarray(value)
                if array.nbytes >= LARGE_BYTES:
                    large.append(([register], self._shared(array)))
                else:
                    small[register] = _copy(array)
            self._whole[program] = [*large, *([(list(small), Bundle.of(list(small.values())))] if small else [])]
        return self._whole[program]

    def pieces(
        self, program: Program, key: object, make: Callable[[list[Array]], Sequence[Array]], registers: Sequence[Register]
    ) -> Bundle:
        """A bundle of pieces of constants.

        Args:
            key: what it is found by.
            make: of the constants in these registers the pieces.
        """
        kept = self._pieces.setdefault(program, {})
        if key not in kept:
            arrays = {
                register: array for held, bundle in self.of(program) for register, array in zip(held, bundle.arrays or (), strict=True)
            }
            kept[key] = Bundle.of(make([arrays[register] for register in registers]))
        return kept[key]

    def _shared(self, array: HostArray) -> Bundle:
        """A bundle of a large array, which may be that of another program."""
        aval = aval_of(array)
        for bundles in list(self._whole.values()):
            for _, bundle in bundles:
                if bundle.avals == (aval,) and bundle.arrays is not None and _same_bits(np.asarray(bundle.arrays[0]), array):
                    return bundle
        return Bundle.of([_copy(array)])


def _copy(array: HostArray) -> Array:
    return jax_array(np.array(array))


def _same_bits(one: HostArray, other: HostArray) -> bool:
    return np.array_equal(_bytes_of(one), _bytes_of(other))


def _bytes_of(array: HostArray) -> HostArray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
