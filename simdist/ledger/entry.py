"""What the ledger writes down: calls of kernels that are still to be made.

A *site* is a place of a program that calls a kernel: the kernel, the types of the bundles that go in, and how its results
are grouped into bundles. An *entry* is one call at a site, as a plain tuple, because a run notes millions of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from simdist.program.kernels import Kernel
from simdist.program.values import Aval, Bundle, BundleType

__all__ = ["BatchLike", "Branch", "Entry", "Site", "describe"]

# (number, branch, registers read, registers written, arrays from the host, (task, step, second))
Entry = tuple[int, int, list[int], list[int], tuple[Any, ...], Any]


class BatchLike(Protocol):
    """A batch of input: rows of a table, or arrays."""

    @property
    def table(self) -> Any: ...
    @property
    def rows(self) -> Any: ...
    def leaves(self) -> tuple[Any, ...]: ...


class Site:
    """A place that calls a kernel. Made by `Ledger.site`.

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

    def __init__(self, kernel: Kernel, reads: tuple[BundleType, ...], writes: tuple[BundleType, ...], files: list[Any]) -> None:
        self.kernel = kernel
        self.reads = reads
        self.writes = writes
        self.fed: tuple[Aval, ...] = kernel.in_avals[sum(map(len, reads)) :]
        self.files = files
        self.branches: dict[Any, int] = {}
        self.blanks = tuple(Bundle(avals) for avals in writes)

    def split(self, arrays: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The kernel's results, bundle by bundle."""
        parts: list[tuple[Any, ...]] = []
        start = 0
        for avals in self.writes:
            parts.append(arrays[start : start + len(avals)])
            start += len(avals)
        return parts


@dataclass(frozen=True, eq=False)
class Branch:
    """One kind of entry: a site, and the table whose rows it is fed.

    Attributes:
        table: None where the batch is passed leaf by leaf, or there is none.
        fed: what the host passes for each entry: rows of the table or leaves, then keys and the like.
    """

    site: Site
    table: Any
    fed: tuple[Aval, ...]

    def arguments(self, fed: tuple[Any, ...]) -> list[Any]:
        """The kernel's last inputs, from what an entry was fed."""
        return list(fed) if self.table is None else [*self.table.take(fed[0]), *fed[1:]]


def describe(where: Any) -> str:
    """Task, step and virtual time of an entry, for error messages."""
    return "{}, step {}, {:.6f} s".format(*where) if isinstance(where, tuple) else str(where or "the cluster")
