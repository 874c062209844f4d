"""One call of a kernel that is still to be made: what the ledger writes down, and the replay machine reads."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from simdist.program.kernels import Kernel
from simdist.program.values import Bundle

__all__ = ["BatchLike", "Entry"]


class BatchLike(Protocol):
    """A batch of input: rows of a table, or arrays."""

    @property
    def table(self) -> Any: ...
    @property
    def rows(self) -> Any: ...
    def leaves(self) -> tuple[Any, ...]: ...


class Entry:
    """One call of a kernel that is still to be made."""

    __slots__ = ("batch", "host", "inputs", "kernel", "outputs", "sequence", "sizes", "where")

    def __init__(
        self,
        sequence: int,
        kernel: Kernel,
        inputs: tuple[Bundle, ...],
        batch: BatchLike | None,
        host: tuple[Any, ...],
        where: str,
    ) -> None:
        self.sequence = sequence
        self.kernel = kernel
        self.inputs = inputs
        self.batch = batch
        self.host = host
        self.where = where
        self.outputs: tuple[weakref.ref[Bundle], ...] = ()
        self.sizes: tuple[int, ...] = ()

    def arguments(self) -> list[Any]:
        """The kernel's flat inputs: the input bundles, then the batch, then what the host made."""
        arrays: list[Any] = []
        for bundle in self.inputs:
            assert bundle.arrays is not None
            arrays.extend(bundle.arrays)
        if self.batch is not None:
            arrays.extend(self.batch.leaves())
        arrays.extend(self.host)
        return arrays

    def finish(self, arrays: Sequence[Any]) -> None:
        """Hand the results to the bundles that somebody still holds, and let the inputs go."""
        start = 0
        for reference, size in zip(self.outputs, self.sizes, strict=True):
            bundle = reference()
            if bundle is not None:
                bundle.arrays, bundle.entry = tuple(arrays[start : start + size]), None
            start += size
        self.inputs, self.batch, self.host = (), None, ()
