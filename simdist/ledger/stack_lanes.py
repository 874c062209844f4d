"""Lanes: bundles of numbers that one batched call made for many entries, and that stay together as long as nothing takes them apart.

A thousand results of one call are one array for each leaf, [lanes, ...]. To cut them apart costs a thousand calls, and to put them
together again for the next kernel a thousand more: that would be as slow as a call for each entry. So a result is a *lane*, a stack and
an index, until a value is read by itself; and the next batched call takes the whole stack, or gathers rows from it in one call.

Invariant: a stack is never written to, so a lane has the same numbers for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from simdist.program.arrays import Array, Arrays, HostArray

__all__ = [
    "Column",
    "Holder",
    "Lane",
    "LaneStack",
    "Numbers",
    "cut_apart",
    "gathered",
    "on_host_alone",
    "put_together",
    "put_together_on_device",
    "rows_of",
]

# Lanes that one compiled call puts together or cuts apart on an accelerator: few sizes are compiled, and few calls are made.
BLOCK = 16
# A stack of so many bytes is copied to the host as a whole when one of its lanes is read.
SMALL_BYTES = 1 << 20


class StackReader(Protocol):
    """Cuts the lanes of a stack apart, and knows on which device they shall lie then."""

    def cut(self, stack: Sequence[jax.Array], lanes: Sequence[int]) -> list[Arrays]: ...


class LaneStack:
    """The results of one batched call that make up one bundle in each lane.

    Attributes:
        leaves: for each leaf of the bundle one array [lanes, ...].
        reader: cuts it apart.
    """

    __slots__ = ("leaves", "reader")

    def __init__(self, leaves: Sequence[jax.Array], reader: StackReader) -> None:
        self.leaves = tuple(leaves)
        self.reader = reader

    def __len__(self) -> int:
        return self.leaves[0].shape[0] if self.leaves else 0


class Lane:
    """One bundle in a stack."""

    __slots__ = ("index", "stack")

    def __init__(self, stack: LaneStack, index: int) -> None:
        self.stack = stack
        self.index = index

    def cut(self) -> Arrays:
        """Its numbers by themselves; they do not keep the stack alive."""
        leaves = self.stack.leaves
        if sum(leaf.nbytes for leaf in leaves) <= SMALL_BYTES:  # fetched once: who reads one loss reads the others too
            return cut_apart(leaves, [self.index], on_host=True)[0]
        return self.stack.reader.cut(leaves, [self.index])[0]


Numbers: TypeAlias = Arrays | Lane
"""The numbers of a bundle: by themselves, or in a stack."""
Holder: TypeAlias = Arrays | LaneStack
"""The same without saying which lane of a stack."""


class Column(NamedTuple):
    """One bundle for each of many entries.

    Attributes:
        holders: for each entry, what holds its numbers.
        lanes: for each entry, in which lane; 0 where the numbers are by themselves.
    """

    holders: list[Holder]
    lanes: list[int]

    def one_stack(self) -> LaneStack | None:
        """The stack in which all are, if there is one."""
        first = self.holders[0]
        return first if isinstance(first, LaneStack) and self.holders.count(first) == len(self.holders) else None

    def apart(self) -> list[Arrays]:
        """All by themselves; those that are in one stack are cut out of it together."""
        wanted: dict[int, tuple[LaneStack, dict[int, None]]] = {}
        for holder, lane in zip(self.holders, self.lanes, strict=True):
            if isinstance(holder, LaneStack):
                wanted.setdefault(id(holder), (holder, {}))[1][lane] = None
        found: dict[tuple[int, int], Arrays] = {}
        for key, (stack, lanes) in wanted.items():
            found.update(zip([(key, lane) for lane in lanes], stack.reader.cut(stack.leaves, list(lanes)), strict=True))
        pairs = zip(self.holders, self.lanes, strict=True)
        return [found[id(holder), lane] if isinstance(holder, LaneStack) else holder for holder, lane in pairs]


@jax.jit
def _stack_block(rows: Sequence[Arrays]) -> list[jax.Array]:
    return [jnp.stack(column) for column in zip(*rows, strict=True)]


@jax.jit
def _joined_blocks(blocks: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    return [jnp.concatenate(column) for column in zip(*blocks, strict=True)]


@jax.jit
def _cut_block(stack: Sequence[jax.Array], lanes: Sequence[HostArray]) -> list[list[jax.Array]]:
    return [[jax.lax.dynamic_index_in_dim(leaf, lane, keepdims=False) for leaf in stack] for lane in lanes]


def rows_of(stack: Sequence[Array], rows: HostArray) -> list[jax.Array]:
    """Some rows of each leaf of a stack."""
    return [jnp.asarray(leaf)[rows] for leaf in stack]


gathered = jax.jit(rows_of)
"""The same in one call."""


def on_host_alone(rows: Sequence[Arrays]) -> bool:
    """Whether all arrays are the host's."""
    return {type(array) for row in rows for array in row} <= {np.ndarray}


def put_together(rows: Sequence[Arrays], on_host: bool) -> Sequence[Array]:
    """One array [rows, ...] for each leaf.

    Args:
        rows: at least one; a power of two of them where they lie on an accelerator, so that few sizes are compiled.
        on_host: whether the host's memory is the device's too. Then many rows are put together there, where it is as fast, and few
            on the device, which does not have to wait until they are computed.
    """
    if (on_host and len(rows) > BLOCK) or on_host_alone(rows):
        return [np.stack([np.asarray(array) for array in column]) for column in zip(*rows, strict=True)]
    return put_together_on_device(rows)


def put_together_on_device(rows: Sequence[Arrays]) -> list[jax.Array]:
    """The same from arrays that lie on one accelerator, and there."""
    blocks = [_stack_block(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)]
    return blocks[0] if len(blocks) == 1 else _joined_blocks(blocks)


def cut_apart(stack: Sequence[jax.Array], lanes: Sequence[int], on_host: bool) -> list[Arrays]:
    """Rows of a stack by themselves.

    Args:
        stack: for each leaf an array [lanes, ...].
        lanes: which rows.
        on_host: as for `put_together`.
    """
    if on_host:
        leaves = [np.asarray(leaf) for leaf in stack]
        # Copies: a view would keep the whole stack alive.
        return [tuple([np.array(leaf[lane]) for leaf in leaves]) for lane in lanes]
    rows: list[Arrays] = []
    for start in range(0, len(lanes), BLOCK):
        block = [np.int32(lane) for lane in lanes[start : start + BLOCK]]
        block += block[-1:] * (BLOCK - len(block) if len(block) > 1 else 0)  # only two sizes are compiled
        rows.extend(tuple(row) for row in _cut_block(stack, block))
    return rows[: len(lanes)] if len(lanes) <= BLOCK else [rows[place] for place in range(len(lanes))]
