"""The row numbers of a sparse read: computed on the host from what is known of a batch before anything runs.

Which rows a step asks for decides which servers it asks and how many bytes travel. So the part of a step that makes ids of its batch runs
when the step is scheduled, also where no other numbers are computed. Each row is asked for once; positions say which one each id means.
Padding asks for no row: what stands at its position has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex_core

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, HostArray
from simdist.program.jaxprs import aval_in
from simdist.program.kernels import Kernel

__all__ = ["HostIds", "RowNumbers", "joint_count", "spread_out"]

NONE = -1
"""Stands for all padding."""

NOWHERE: HostArray = np.zeros(0, np.int32)

MOVES = frozenset(("reshape", "squeeze", "copy", "convert_element_type"))


class RowNumbers:
    """The rows that one step asks of a table of n rows, by k ids.

    Attributes:
        unique: each row once [k], ascending; filled up with n.
        positions: for each id [k], where in `unique` its row is; of padding, the last of the filling.
        count: rows before the filling.
        joint: the rows that the replicas of a worker ask for together, where this is one of them; else None.
        joint_positions: for each of `unique` [k] which of the joint rows it is; of the filling, one after the last.
    """

    __slots__ = ("_counts", "count", "joint", "joint_positions", "positions", "unique")

    def __init__(self, unique: HostArray, positions: HostArray, count: int) -> None:
        self.unique = unique
        self.positions = positions
        self.count = count
        self.joint: RowNumbers | None = None
        self.joint_positions = NOWHERE
        self._counts: dict[tuple[int, int], int] = {}

    def count_in(self, first: int, stop: int) -> int:
        """How many of the rows are those of one shard, from `first` to `stop`."""
        count = self._counts.get((first, stop))
        if count is None:
            count = self.counts_in(((first, stop),))[0]
        return count

    def counts_in(self, shards: Sequence[tuple[int, int]]) -> list[int]:
        """The same of several shards at once, each from its first row to the one after its last."""
        below = self.unique[: self.count].searchsorted(np.array(shards)).tolist()
        counts = [high - low for low, high in below]
        self._counts.update(zip(shards, counts, strict=True))
        return counts


def joint_count(counts: Sequence[int], num_rows: int) -> int:
    """How many rows of a table [n, ...] replicas read together at most, by the number of ids of each.

    Example:
        >>> joint_count([3, 2], num_rows=100), joint_count([3, 2], num_rows=4)
        (5, 4)
    """
    return min(max(sum(counts), 1), num_rows)  # where there is no id at all, a row that nobody asks for


def spread_out(num_ids: int, num_rows: int) -> RowNumbers:
    """As many rows of a table as a number of ids asks for at most, evenly over the table [n, ...].

    Example:
        >>> spread_out(3, num_rows=9).unique.tolist(), spread_out(9, num_rows=2).unique.tolist()
        ([0, 3, 6], [0, 1])
    """
    count = min(num_ids, num_rows)
    return RowNumbers((np.arange(count) * num_rows // max(count, 1)).astype(np.int32), NOWHERE, count)


class HostIds:
    """The ids of the lookups of one table, as a function of arrays of the batch or of the call.

    Args:
        name: of the table.
        num_rows: of the table.
        kernel: takes these arrays, gives the ids of each lookup.
        padded: of each lookup, whether ids below 0 are padding; default: none of them.
    """

    def __init__(self, name: str, num_rows: int, kernel: Kernel, padded: Sequence[bool] = ()) -> None:
        self.name = name
        self.num_rows = num_rows
        self.kernel = kernel
        self.padded = tuple(padded)
        self._function = _on_host(kernel)

    def numbers(self, arrays: Sequence[Array]) -> RowNumbers:
        """The row numbers of a step.

        Args:
            arrays: of the batch, and arguments of the call.

        Raises:
            InvalidArgumentError: an id is no row of the table.
        """
        flat = [np.asarray(ids).reshape(-1) for ids in self._function(arrays)]
        if any(self.padded):
            return self._without_padding(flat)
        ids = flat[0] if len(flat) == 1 else np.concatenate(flat)
        unique, positions = np.unique(ids, return_inverse=True)
        return self._filled_up(unique, positions)

    def _without_padding(self, flat: Sequence[HostArray]) -> RowNumbers:
        ids = np.concatenate([np.maximum(own, NONE) if padded else own for own, padded in zip(flat, self.padded, strict=True)])
        for own, padded in zip(flat, self.padded, strict=True):
            if not padded and own.size:
                self._check(int(own.min()))
        unique, positions = np.unique(ids, return_inverse=True)
        if not len(unique) or unique[0] != NONE:
            return self._filled_up(unique, positions)
        positions = np.where(positions == 0, len(ids), positions) - 1
        return self._filled_up(unique[1:], positions)

    def together(self, each: Sequence[RowNumbers]) -> RowNumbers:
        """The rows that replicas ask for together, each once; from now on each of them knows its positions among these.

        Args:
            each: what the replicas ask for.
        """
        count = joint_count([len(own.unique) for own in each], self.num_rows)
        unique = np.unique(np.concatenate([own.unique[: own.count] for own in each]))
        joint = RowNumbers(self._padded(unique, count), NOWHERE, len(unique))
        for own in each:
            own.joint, own.joint_positions = joint, np.full(len(own.unique), count, np.int32)
            own.joint_positions[: own.count] = unique.searchsorted(own.unique[: own.count])
        return joint

    def _padded(self, unique: HostArray, size: int) -> HostArray:
        padded = np.full(size, self.num_rows, np.int32)
        padded[: len(unique)] = unique
        return padded

    def _filled_up(self, unique: HostArray, positions: HostArray) -> RowNumbers:
        if len(unique):
            self._check(int(unique[0]))
            self._check(int(unique[-1]))
        return RowNumbers(self._padded(unique, positions.size), positions.astype(np.int32).reshape(-1), len(unique))

    def _check(self, row: int) -> None:
        if 0 <= row < self.num_rows:
            return
        raise InvalidArgumentError(
            f"An embedding lookup of {self.name!r} asks for row {row}; the table has {self.num_rows} rows, 0 to {self.num_rows - 1}. "
            "Make the table larger (input_dim), or map unknown values to a row of their own (num_oov_indices of a lookup)."
        )


def _on_host(kernel: Kernel) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """A function of arrays; what only moves or converts numbers is done by numpy, for a call of JAX takes longer."""
    if any(eqn.primitive.name not in MOVES for eqn in kernel.closed.jaxpr.eqns):
        avals = kernel.in_avals
        # The 64-bit ids of a host become 32-bit ones, as in the step itself.
        return lambda arrays: _called(kernel, [jnp.asarray(a, aval.dtype) for a, aval in zip(arrays, avals, strict=True)])
    return lambda arrays: _moved(kernel.closed, arrays)


def _called(kernel: Callable[..., Sequence[jax.Array]], arrays: Sequence[jax.Array]) -> Sequence[Array]:
    with jax.core.eval_context():
        return kernel(*arrays)


def _moved(closed: jex_core.ClosedJaxpr, arrays: Sequence[Array]) -> list[Array]:
    jaxpr = closed.jaxpr
    values: dict[jex_core.Var, Array] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *arrays), strict=True))

    def value(atom: jex_core.Var | jex_core.Literal) -> Array:
        return np.asarray(atom.val) if isinstance(atom, jex_core.Literal) else values[atom]

    for eqn in jaxpr.eqns:
        (made,) = eqn.outvars
        given, aval = np.asarray(value(eqn.invars[0])), aval_in(made)
        values[made] = given.reshape(aval.shape).astype(aval.dtype, copy=False)
    return [value(var) for var in jaxpr.outvars]
