"""Register files: the arrays of the ledger, one file of registers for each type of bundle.

A bundle gets a register of its type when it is noted down, and keeps it until the last reference to the bundle is gone: Python's
reference counts are the liveness analysis. An entry that is noted later may then write to the same register; entries run
in the order of their notes, so an earlier reader has read it by then.

A register's number carries the number of its file in the high bits. Its numbers are either *loose* (a tuple of arrays,
as one call of a kernel gave them) or in the *stack* of the file (one array a leaf, its first axis the register), where the
replay machine works. Memory is bounded by the bundles that are alive at once: workers times parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from simdist.ledger.stack_lanes import Lane, Numbers
from simdist.program.arrays import Arrays
from simdist.program.values import BundleType

__all__ = ["INDEX_BITS", "RegisterFile", "index_of"]

INDEX_BITS = 40


def index_of(register: int) -> int:
    """The place of a register within its file."""
    return register & ((1 << INDEX_BITS) - 1)


class RegisterFile:
    """All registers of one type of bundle.

    Attributes:
        free: registers without a bundle; pending entries may still use them.
        unread: the ledger's list of entries one of whose results died unread.
        size: registers that were ever given out.
        loose: numbers that are not in the stack.
        stack: one array [capacity, ...] for each leaf; None before the first replay.
    """

    def __init__(self, number: int, avals: BundleType, unread: list[int]) -> None:
        self.number = number
        self.avals = avals
        self.unread = unread
        self.free: list[int] = []
        self.size = 0
        self.loose: dict[int, Numbers] = {}
        self.stack: tuple[jax.Array, ...] | None = None

    def new(self) -> int:
        """A register that no pending entry uses."""
        self.size += 1
        return (self.number << INDEX_BITS) + self.size - 1

    def held(self, register: int) -> Numbers:
        """The numbers of a register; those that are in a stack of lanes stay there."""
        found = self.loose.get(register)
        return self.get(register) if found is None else found

    def get(self, register: int) -> Arrays:
        """The numbers of a register, by themselves."""
        arrays = self.loose.get(register)
        if isinstance(arrays, Lane):
            arrays = self.loose[register] = arrays.cut()
        if arrays is None:
            assert self.stack is not None
            # A copy: a view would forbid the machine to write in place, a slice would keep the whole stack alive.
            arrays = tuple(np.array(np.asarray(leaf)[index_of(register)]) for leaf in self.stack)
        return arrays

    @property
    def capacity(self) -> int:
        """The number of registers of the stack: few different numbers, and at least one register that is never read."""
        return max(4, 1 << self.size.bit_length())

    def copied(self) -> tuple[jax.Array, ...]:
        """A copy of the stack that its owner may overwrite, with room for all registers and with what is loose."""
        return tuple(self._copied(position) for position in range(len(self.avals)))

    def _copied(self, position: int) -> jax.Array:
        if self.stack is not None and not self.loose and len(self.stack[position]) == self.capacity:
            return self.stack[position].copy()
        aval = self.avals[position]
        leaf = np.zeros((self.capacity, *aval.shape), jnp.dtype(aval.dtype))
        if self.stack is not None:
            old = self.stack[position]
            leaf[: old.shape[0]] = old
        for register, arrays in self.loose.items():
            leaf[index_of(register)] = (arrays.cut() if isinstance(arrays, Lane) else arrays)[position]
        return jnp.asarray(leaf)

    def replaced(self, stack: tuple[jax.Array, ...] | None, loose: dict[int, Numbers]) -> list[Callable[[], None]]:
        """What is to be called, so that these are the numbers."""
        return [partial(setattr, self, "stack", stack), partial(setattr, self, "loose", loose)]

    def prune(self) -> None:
        """Forget the numbers of registers without a bundle; only while no entry is pending."""
        if len(self.loose) > 2 * (self.size - len(self.free)) + 64:
            for register in self.free:
                self.loose.pop(register, None)
