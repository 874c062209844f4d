"""Entries of the ledger: calls of kernels that are not made yet.

A *site* is a place of a program that calls a kernel: the kernel, the types of the bundles that go in, and how its results
are grouped into bundles. An *entry* is one call at a site, as a plain tuple, because a run notes millions of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from simdist.ledger.registers import RegisterFile
from simdist.program.arrays import Array, Arrays
from simdist.program.kernels import Kernel
from simdist.program.step_iterator import ColumnTable
from simdist.program.values import Aval, Bundle, BundleType

__all__ = ["Branch", "Entry", "Site", "Where", "describe"]

# Task, step and virtual second of a call, or what it is for; None where nobody can say.
Where = tuple[str, int, float] | str | None
# (number, branch, registers read, registers written, arrays from the host, where)
Entry = tuple[int, int, list[int], list[int], Arrays, Where]


Leaf = TypeVar("Leaf")


class Site:
    """A point of a program that calls a kernel. Made by `Ledger.site`.

    Attributes:
        kernel: what is called.
        reads: the types of the bundles that are its first inputs.
        writes: the types of the bundles that its results make up, in order.
        fed: the types of its other inputs, which the host passes with each call.
        files: the register files of `writes`.
        branches: the number of the machine's branch for each table that a batch may come from.
        blanks: what a call gives where no numbers are computed.
    """

    __slots__ = ("blanks", "branches", "fed", "files", "kernel", "reads", "writes")

    def __init__(self, kernel: Kernel, reads: tuple[BundleType, ...], writes: tuple[BundleType, ...], files: list[RegisterFile]) -> None:
        self.kernel = kernel
        self.reads = reads
        self.writes = writes
        self.fed: tuple[Aval, ...] = kernel.in_avals[sum(map(len, reads)) :]
        self.files = files
        self.branches: dict[ColumnTable | None, int] = {}
        self.blanks = tuple(Bundle(avals) for avals in writes)

    def split(self, arrays: tuple[Leaf, ...]) -> list[tuple[Leaf, ...]]:
        """The kernel's results, bundle by bundle."""
        parts: list[tuple[Leaf, ...]] = []
        start = 0
        for avals in self.writes:
            parts.append(arrays[start : start + len(avals)])
            start += len(avals)
        return parts


@dataclass(frozen=True, eq=False)
class Branch:
    """One kind of entry: a site, and the table that feeds its rows.

    Attributes:
        table: None where the batch is passed leaf by leaf, or there is none.
        fed: what the host passes for each entry: rows of the table or leaves, then keys and the like.
    """

    site: Site
    table: ColumnTable | None
    fed: tuple[Aval, ...]

    def arguments(self, fed: Arrays) -> Sequence[Array]:
        """The kernel's last inputs, from what an entry was fed."""
        if self.table is None:
            return fed
        rows = fed[0]
        assert isinstance(rows, np.ndarray)
        return [*self.table.read(rows), *fed[1:]]


def describe(where: Where) -> str:
    """Task, step and virtual time of an entry, for error messages."""
    return "{}, step {}, {:.6f} s".format(*where) if isinstance(where, tuple) else str(where or "the cluster")
