"""Assignment to some elements of a sharded variable, ``v[2:4] = x``: an update of only the shards that have these elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike, HostArray
from simdist.program.narrowing import canonical
from simdist.program.tracing import active_tracer
from simdist.variables.arithmetic import Index
from simdist.variables.masked_rule import update_masked
from simdist.variables.variable import Variable

__all__ = ["assign_items"]


def assign_items(whole: Variable, shards: Sequence[Variable], index: Index, value: ArrayLike) -> None:
    """Assign to the elements of an index, on the shards that have them.

    Args:
        whole: the sharded variable.
        shards: its shards.
        index: as of numpy; it must be known, also in a step.
        value: broadcast to the elements.
    """
    parts = _known(whole.name, index)
    mask = np.zeros(whole.shape, bool)
    try:
        shape = mask[parts].shape
        mask[parts] = True
    except IndexError as error:
        raise IndexError(f"{whole.name}: {error}") from None
    given = canonical(value, whole.name, whole.dtype)
    try:
        jnp.broadcast_shapes(given.shape, shape)
        values = jnp.zeros(whole.shape, whole.dtype).at[parts].set(jnp.broadcast_to(given, shape))
    except ValueError:
        raise InvalidArgumentError(f"A value of shape {tuple(given.shape)} cannot be assigned to {shape} of {whole.name}.") from None
    ranges = [part for part in whole.placement.ranges if part is not None]
    masks = [part.of(mask) for part in ranges] if ranges else [mask]
    pieces = [part.of(values) for part in ranges] if ranges else [values]
    _assign_where([item for item in zip(shards, pieces, masks, strict=True) if item[2].any()])


def _assign_where(changes: Sequence[tuple[Variable, jax.Array, HostArray]]) -> None:
    """Assign values to shards where masks are set."""
    tracer = active_tracer()
    if tracer is not None and not tracer.overlays and changes:
        shards, values, masks = zip(*changes, strict=True)
        update_masked(tracer, "set", shards, values, list(map(jnp.asarray, masks)))
        return
    for shard, value, mask in changes:
        shard.assign(value if mask.all() else jnp.where(mask, value, jnp.asarray(shard.value)))


def _known(name: str, index: Index) -> Any:
    """An index whose numbers are known.

    Raises:
        InvalidArgumentError: a part of it is computed by the step.
    """
    parts = index if isinstance(index, tuple) else (index,)
    bounds = [bound for part in parts if isinstance(part, slice) for bound in (part.start, part.stop, part.step)]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves((parts, bounds))):
        raise InvalidArgumentError(
            f"{name}[...] = value was given an index that this step computes, so the shards that change are not known. Use "
            f"{name}.scatter_update(rows, values)."
        )
    return tuple(np.asarray(part) if isinstance(part, (list, jax.Array, Variable)) else part for part in parts)
