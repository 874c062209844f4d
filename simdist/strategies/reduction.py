"""Reductions: one value of the values of replicas, by a sum, a mean, or by concatenation.

While a step is traced, a replica knows only its own value, and a collective does it; afterwards all values are there, and are
added in the order of the replicas. Means over an axis weigh each replica by its length along that axis, so that an uneven
last batch counts row by row.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simdist.arguments import whole_number, word_of
from simdist.collectives.packing import pack_gradients
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import is_array, present_value, supports_jax_array
from simdist.program.collective import CollectiveOptions
from simdist.program.half_precision import is_half, widened
from simdist.program.narrowing import canonical, kept_dtype, narrowed, numbers_for_jax, require_numbers, require_unmasked
from simdist.program.per_replica import PerReplica, ReplicaLocal
from simdist.program.tracing import Tracer, active_tracer

__all__ = ["ReduceOp", "all_gather", "all_reduce", "as_numbers", "gather", "reduce", "reduce_op_of"]

Axis = int | Sequence[int] | None


class ReduceOp(Enum):
    """Reduction operations: how the values of several replicas become one.

    Attributes:
        SUM: their sum, in their dtype, as in TensorFlow: whole numbers of few bits wrap around without a word where their sum is too
            large (3 times 100 as int8 is 44), with an axis and without. Cast them before: ``value.astype("int32")``. Truth values
            are counted as int32.
        MEAN: their sum divided by the number of replicas (with `axis`, by the number of elements). Numbers of half precision, or less,
            are added, and travel, in float32.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(devices=2)
        >>> ids = strategy.run(lambda: 1.0 * sd.get_replica_context().replica_id_in_sync_group)
        >>> float(strategy.reduce(sd.ReduceOp.SUM, ids, axis=None)), float(strategy.reduce(sd.ReduceOp.MEAN, ids, axis=None))
        (1.0, 0.5)
    """

    SUM = "sum"
    MEAN = "mean"


def reduce_op_of(word: Any) -> ReduceOp:
    """SUM or MEAN, from itself or from its name in any case.

    Raises:
        InvalidArgumentError: another word.

    Example:
        >>> reduce_op_of("Mean").name
        'MEAN'
    """
    name = str(word_of(word)).lower()
    if name not in ("sum", "mean"):
        raise InvalidArgumentError(
            f"reduce_op={word!r} is not known; use ReduceOp.SUM or ReduceOp.MEAN. Anything else, a maximum for example, "
            "is computed of what is gathered: all_gather(value, axis=0) of the replica context, or strategy.gather(values, axis=0)."
        )
    return ReduceOp(name)


def reduce(op: ReduceOp, value: Any, axis: Axis, num_replicas: int, options: CollectiveOptions | None = None) -> Any:
    """One value of a structure of values of replicas.

    Args:
        op: SUM or MEAN.
        value: a structure of `PerReplica`, each of r values; a plain array counts as the same on each of the r replicas.
        axis: None: replica by replica; an axis or several: over these axes of each value, too.
        num_replicas: r.
        options: of the collective, where the values of the others are not known.
    """
    return jax.tree_util.tree_map(lambda leaf: _reduced(op, leaf, axis, num_replicas, options), value, is_leaf=_is_per_replica)


def _reduced(op: ReduceOp, value: Any, axis: Axis, num_replicas: int, options: CollectiveOptions | None) -> Any:
    if isinstance(value, ReplicaLocal):
        local_value = as_numbers(value.local_value, "a value of reduce")
        return _result(op, _all_reduced(value.tracer, op, _summand(op, local_value), axis, options), local_value)
    if isinstance(value, PerReplica):
        parts = [as_numbers(part, "a value of reduce") for part in value.values]
        _require_one_dtype(parts, f"reduce({op.name})")
        return _result(op, _added(op, [_summand(op, part) for part in parts], axis), parts[0])
    _require_summand(op, value)
    if op is ReduceOp.SUM and num_replicas > 1:
        raise InvalidArgumentError(
            f"reduce(SUM) was given a value that is the same on all {num_replicas} replicas, whose sum would be {num_replicas} times as "
            "much. Give what strategy.run returned, or use MEAN."
        )
    alone = _of_one(op, present_value(value))
    return alone if axis is None else _over_axis(op, jnp.asarray(alone), axis)


def _require_summand(op: ReduceOp, value: Any) -> None:
    """Refuse what is no number: one value for all replicas is not looked at otherwise.

    Raises:
        InvalidArgumentError: it is a text, a dataset, or another object.
    """
    value = present_value(value)
    if is_array(value):
        require_numbers(value.dtype.name, f"the value of reduce({op.name})")
    elif not isinstance(value, (bool, int, float, complex)) and not supports_jax_array(value):
        shown = repr(value) if isinstance(value, (str, bytes)) else f"a value of type {type(value).__name__}"
        raise InvalidArgumentError(f"reduce({op.name}) was given {shown}, which is no number. Give what strategy.run returned.")


def _of_one(op: ReduceOp, value: Any) -> Any:
    """The value of one replica, with the dtype that the sum, or the mean, of several would have."""
    if not isinstance(value, (bool, np.generic, np.ndarray, jax.Array)):
        return value
    array = as_numbers(value, "the value of a reduction")
    return _result(op, _summand(op, array), array)


def as_numbers(value: Any, what: str) -> Any:
    """An array of numbers that JAX keeps: it would drop digits of 64-bit integers that do not fit, and keep no text.

    Raises:
        InvalidArgumentError: it is none, or has a mask.
    """
    require_unmasked(value, what)
    if isinstance(value, (int, float, complex)):
        canonical(value, what)  # refuses what does not fit; the array below has no dtype of its own, as the number has none
    if isinstance(value, (str, bytes)) or is_array(value):
        require_numbers("str" if isinstance(value, (str, bytes)) else value.dtype.name, what)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.itemsize > kept_dtype(value.dtype).itemsize:
        return jnp.asarray(narrowed(np.asarray(value), kept_dtype(value.dtype), what))
    return jnp.asarray(numbers_for_jax(value, what))


def _over_axis(op: ReduceOp, value: Any, axis: Axis) -> Any:
    axes = _axes(value, axis)
    return _sum_over(value, axes) if op is ReduceOp.SUM else jnp.mean(value, axis=axes)


def _sum_over(value: Any, axes: tuple[int, ...]) -> Any:
    """A sum in the dtype of its summands, as those over replicas are, and as tf.reduce_sum is; that of JAX would be wider."""
    return jnp.sum(value, axis=axes, dtype=value.dtype)


def _require_one_dtype(parts: list[Any], what: str) -> None:
    """Refuse values of several dtypes, of which JAX would choose one without a word. Python's numbers, of no dtype, go with any.

    Raises:
        InvalidArgumentError: there are several.
    """
    dtypes = [part.dtype.name for part in parts if not getattr(part, "weak_type", False)]
    if len(set(dtypes)) > 1:
        wanted = jnp.result_type(*dtypes).name
        raise InvalidArgumentError(f"{what} needs values of one dtype; got {dtypes}. Cast them in the replicas: value.astype({wanted!r}).")


def _added(op: ReduceOp, parts: list[Any], axis: Axis) -> Any:
    count: Any = len(parts)
    if axis is not None:
        axes = _axes(parts[0], axis)
        count = sum(_length(part, axes) for part in parts)
        parts = [_sum_over(part, axes) for part in parts]
    if any(part.shape != parts[0].shape for part in parts):
        raise InvalidArgumentError(
            f"The replicas' values have the shapes {[tuple(part.shape) for part in parts]}, which cannot be added. Reduce over the axis "
            "that differs (axis=0 for the batch), or use strategy.gather."
        )
    total = sum(parts[1:], parts[0])
    return total if op is ReduceOp.SUM else total / count


def _all_reduced(tracer: Tracer, op: ReduceOp, local_value: Any, axis: Axis, options: CollectiveOptions | None) -> Any:
    if axis is None:
        total = tracer.collective("all_reduce", [local_value], options, averaged=op is ReduceOp.MEAN)[0]
        return total if op is ReduceOp.SUM else total / tracer.num_replicas
    axes = _axes(local_value, axis)
    part = _sum_over(local_value, axes)
    if op is ReduceOp.SUM:
        return tracer.collective("all_reduce", [part], options)[0]
    total, count = tracer.collective("all_reduce", [part, jnp.asarray(_length(local_value, axes), part.dtype)], options)
    return total / count


def _summand(op: ReduceOp, value: Any) -> Any:
    """The summand of a replica: truth values are counted; the mean of whole numbers is none, and their sum may be too large for them.

    So may be the sum of numbers of float16 whose mean is not, and a sum of bfloat16 loses digits: for a mean it is taken in float32.
    """
    if jnp.issubdtype(value.dtype, jnp.inexact):
        return widened(value) if op is ReduceOp.MEAN else value
    if op is ReduceOp.MEAN:
        return value.astype(jax.dtypes.canonicalize_dtype(jnp.float64))
    return value.astype(jnp.int32) if value.dtype == bool else value


def _result(op: ReduceOp, result: Any, value: Any) -> Any:
    """A result, in the dtype of the values if that is one of half precision."""
    return result.astype(value.dtype) if op is ReduceOp.MEAN and is_half(value.dtype) else result


def _length(value: Any, axes: tuple[int, ...]) -> int:
    return int(np.prod([value.shape[axis] for axis in axes]))


def _axes(value: Any, axis: Axis) -> tuple[int, ...]:
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(whole_number(one, "axis") for one in given)
    for one in axes:
        if not -value.ndim <= one < value.ndim:
            raise InvalidArgumentError(f"axis={one} is out of range for values of shape {tuple(value.shape)}.")
    axes = tuple(one % value.ndim for one in axes)
    if len(set(axes)) < len(axes):
        raise InvalidArgumentError(f"axis={axis} names an axis twice.")
    return axes


# -- joining ------------------------------------------------------------------------------------------------------------


def gather(value: Any, axis: int) -> Any:
    """The replicas' values, one after the other along an axis, in the order of the replicas.

    Raises:
        InvalidArgumentError: scalars, different numbers of axes, or an axis that is not there.
    """

    def joined(leaf: Any) -> Any:
        return _joined([as_numbers(part, "a value of gather") for part in (leaf.values if isinstance(leaf, PerReplica) else [leaf])], axis)

    return jax.tree_util.tree_map(joined, value, is_leaf=_is_per_replica)


def _joined(parts: list[Any], axis: int) -> Any:
    ranks = {part.ndim for part in parts}
    if 0 in ranks:
        raise InvalidArgumentError("gather was given scalars, which have no axis to join. Use local_results, or expand them to shape (1,).")
    if len(ranks) > 1:
        raise InvalidArgumentError(f"gather needs values with the same number of axes; got shapes {[tuple(part.shape) for part in parts]}.")
    (position,) = _axes(parts[0], whole_number(axis, "axis"))
    rests = {(*part.shape[:position], *part.shape[position + 1 :]) for part in parts}
    if len(rests) > 1:
        raise InvalidArgumentError(f"gather along axis {axis} needs equal other axes; got shapes {[tuple(part.shape) for part in parts]}.")
    _require_one_dtype(parts, "gather")
    return jnp.concatenate(parts, axis=position)


# -- inside a replica ---------------------------------------------------------------------------------------------------


def all_reduce(op: ReduceOp, value: Any, options: Any = None, label: str = "") -> Any:
    """Combine a structure of values of this replica with those of the others, in one collective; or in packs, where options say so."""
    tracer = active_tracer()
    if tracer is None or tracer.num_replicas == 1:
        return jax.tree_util.tree_map(lambda leaf: _of_one(op, present_value(leaf)), value)
    leaves, structure = jax.tree_util.tree_flatten(value)
    given = [as_numbers(leaf, "the value of all_reduce") for leaf in leaves]
    summands = [_summand(op, leaf) for leaf in given]
    totals = list(summands)
    for pack in _packs(summands, options):
        parts = [summands[number] for number in pack]
        summed = tracer.collective("all_reduce", parts, options=options, label=label, averaged=op is ReduceOp.MEAN)
        for number, total in zip(pack, summed, strict=True):
            totals[number] = total
    if op is ReduceOp.MEAN:
        totals = [_result(op, total / tracer.num_replicas, leaf) for total, leaf in zip(totals, given, strict=True)]
    return jax.tree_util.tree_unflatten(structure, totals)


def _packs(arrays: Sequence[jax.Array], options: Any) -> Sequence[Sequence[int]]:
    """The positions of the arrays that travel together."""
    bytes_per_pack = 0 if options is None else options.bytes_per_pack
    if not bytes_per_pack:
        return [range(len(arrays))]
    return pack_gradients([array.size * array.dtype.itemsize for array in arrays], [array.dtype for array in arrays], bytes_per_pack)


def all_gather(value: Any, axis: int, options: Any = None) -> Any:
    """Join a structure of values of this replica with those of the others."""
    tracer = active_tracer()
    leaves, structure = jax.tree_util.tree_flatten(value)
    leaves = [as_numbers(leaf, "the value of all_gather") for leaf in leaves]
    if tracer is None or tracer.num_replicas == 1:
        return jax.tree_util.tree_unflatten(structure, [_joined([leaf], axis) for leaf in leaves])
    parts = tracer.collective("all_gather", leaves, options=options)
    joined = [_joined([part[number] for part in parts], axis) for number in range(len(leaves))]
    return jax.tree_util.tree_unflatten(structure, joined)


def _is_per_replica(value: Any) -> bool:
    return isinstance(value, PerReplica)
