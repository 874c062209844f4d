"""The numbers of a collective: the kernel that computes the result of each replica.

Sums are added in the order of the collective's schedule, all arrays of one dtype in one piece, as they travel. Rows of tables that were
gathered are added in the order of the replicas, and of their ids (`simdist.program.sparse_sums`): into a table, or each row by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from simdist.caches import shared
from simdist.collectives.base import Schedule
from simdist.collectives.numbers import combined_packs, combined_stacks
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import DType
from simdist.program.collective import SPARSE_SUM, Collective
from simdist.program.global_sizes import differing_sizes
from simdist.program.half_precision import is_half
from simdist.program.kernels import KEPT_KERNELS, Kernel, kernel_of
from simdist.program.lane_sums import adds_lanes
from simdist.program.lookups import plain_spread
from simdist.program.sparse_sums import summed_rows
from simdist.program.values import Aval, BundleType

__all__ = ["Combination", "Combinations", "disagreement"]

_kernels = shared("kernels of collectives", KEPT_KERNELS)


@dataclass(frozen=True, eq=False)
class Combination:
    """The kernel of a collective, and what each replica gets of its results.

    Attributes:
        schedule: in whose order sums are added; None where nothing is added.
        kernel: of all arrays that are given, rank by rank; None where the first rank's go to all (a broadcast).
        reads, writes: the types of the bundles that go in and come out.
        is_shared: whether all ranks get the same bundle.
    """

    schedule: Schedule | None
    kernel: Kernel | None
    reads: tuple[BundleType, ...]
    writes: tuple[BundleType, ...]
    is_shared: bool


class Combinations:
    """The combinations of a group of replicas, each made once."""

    def __init__(self) -> None:
        # By the identity of the schedule, which is kept with it: to compare thousands of transfers in each step takes longer.
        self._known: dict[Hashable, Combination] = {}

    def of(self, collective: Collective, schedule: Schedule | None, given: tuple[BundleType, ...], scale: float) -> Combination:
        """The combination of a collective.

        Args:
            collective: the one that is combined.
            schedule: in whose order sums are added.
            given: the types of the bundles of the replicas that take part, by rank.
            scale: factor on sums; 1 unless some replicas were dropped.
        """
        key = (collective.kind, id(schedule), given, scale, *_table_of(collective))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _combination(collective, schedule, given, scale)
        return known

    def of_stacks(self, collective: Collective, schedule: Schedule | None, stacks: tuple[BundleType, ...], scale: float) -> Combination:
        """The combination of an all-reduce, or of rows of a table, whose operands are the lanes of stacks of these types, in order."""
        key = (collective.kind, id(schedule), "stacks", stacks, scale, *_table_of(collective))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _sum_of_stacks(collective, schedule, stacks, scale)
        return known


def _table_of(collective: Collective) -> tuple[object, ...]:
    """What a sum of rows depends on, beside its operands."""
    return (collective.outputs, collective.sum_rows) if collective.kind == SPARSE_SUM else ()


def _sum_of_stacks(collective: Collective, schedule: Schedule | None, stacks: tuple[BundleType, ...], scale: float) -> Combination:
    if collective.kind == SPARSE_SUM:
        return _sum_of_stacked_rows(collective, schedule, stacks, scale)

    def run(*arrays: jax.Array) -> list[jax.Array]:
        assert schedule is not None
        return [_scaled(total, scale) for total in added_stacks(schedule, _parts(arrays, stacks))]

    kernel = _kernel(_form_of(stacks), collective, schedule, _end_to_end(stacks), scale, run)
    if len(stacks) == 1 and not any(is_half(aval.dtype) for aval in stacks[0]):  # of so few bits, another order makes infinite numbers
        adds_lanes(kernel, scale)
    return Combination(schedule, kernel, stacks, (kernel.out_avals,), True)


def _form_of(stacks: tuple[BundleType, ...]) -> str:
    """How the ranks lie in stacks."""
    return f"stacks of {[stack[0].shape[0] for stack in stacks]}"


def _end_to_end(bundles: Sequence[BundleType]) -> BundleType:
    """The types of all arrays of some bundles."""
    return tuple([aval for avals in bundles for aval in avals])


def _parts(arrays: Sequence[jax.Array], bundles: Sequence[BundleType]) -> list[list[jax.Array]]:
    """The arrays of each bundle."""
    each = iter(arrays)
    return [[next(each) for _ in avals] for avals in bundles]


def _kernel(
    form: str, collective: Collective, schedule: Schedule | None, avals: BundleType, scale: float, run: Callable[..., list[jax.Array]]
) -> Kernel:
    """The kernel of a collective, traced once in a process: each strategy needs it in its first step."""
    name = f"{collective.kind} {collective.label}".strip()
    # The schedule goes by its identity, which stays its own as long as it stands in the cache.
    found: tuple[Schedule | None, Kernel] = _kernels.get(
        (form, name, id(schedule), avals, scale), lambda: (schedule, kernel_of(name, run, avals))
    )
    return found[1]


def _combination(collective: Collective, schedule: Schedule | None, given: tuple[BundleType, ...], scale: float) -> Combination:
    if collective.kind == SPARSE_SUM:
        return _sum_of_tables(collective, schedule, given, scale)
    ranks, count = len(given), len(given[0])
    if collective.kind == "broadcast":
        return Combination(schedule, None, given, given[:1], True)

    def run(*arrays: jax.Array) -> list[jax.Array]:
        if collective.kind == "all_gather":
            return list(arrays)
        assert schedule is not None
        sums = added(schedule, [arrays[rank * count : (rank + 1) * count] for rank in range(ranks)])
        totals = [_scaled(total, scale) for total in sums]
        return totals + [jnp.zeros_like(total) for total in totals] * (ranks - 1) if collective.kind == "reduce" else totals

    kernel = _kernel(f"{ranks} ranks", collective, schedule, _end_to_end(given), scale, run)
    if collective.kind not in ("reduce", "reduce_scatter"):
        return Combination(schedule, kernel, given, (kernel.out_avals,), True)
    share = len(kernel.out_avals) // ranks
    writes = tuple([kernel.out_avals[rank * share : (rank + 1) * share] for rank in range(ranks)])
    return Combination(schedule, kernel, given, writes, False)


def _sum_of_tables(collective: Collective, schedule: Schedule | None, given: tuple[BundleType, ...], scale: float) -> Combination:
    """The combination of a sparse all-reduce: each rank gives ids [k] and rows [k, ...], or the whole gradient [n, ...]."""
    num_rows = collective.outputs[0].shape[0]

    def run(*arrays: jax.Array) -> list[jax.Array]:
        assert schedule is not None
        parts = _parts(arrays, given)
        if schedule.kind == "all_gather":
            ids, rows = (jnp.concatenate(both) for both in zip(*parts, strict=True))
            return _sum_of_rows(collective, ids, rows, scale)
        dense = [part if len(part) == 1 else [plain_spread(part[1], part[0], num_rows)] for part in parts]
        return [_scaled(total, scale) for total in added(schedule, dense)]

    form = f"{[len(avals) for avals in given]} of {num_rows} rows, {collective.sum_rows} in the sum"
    kernel = _kernel(form, collective, schedule, _end_to_end(given), scale, run)
    return Combination(schedule, kernel, given, (kernel.out_avals,), True)


def _sum_of_stacked_rows(collective: Collective, schedule: Schedule | None, stacks: tuple[BundleType, ...], scale: float) -> Combination:
    """The combination of ids [r, k] and rows [r, k, ...] that are gathered, of the replicas of each stack."""

    def run(*arrays: jax.Array) -> list[jax.Array]:
        ids, rows = (jnp.concatenate(column) for column in zip(*_parts(arrays, stacks), strict=True))
        return _sum_of_rows(collective, ids.reshape(-1), rows.reshape(-1, *rows.shape[2:]), scale)

    form = f"{_form_of(stacks)} of {collective.outputs[0].shape[0]} rows, {collective.sum_rows} in the sum"
    kernel = _kernel(form, collective, schedule, _end_to_end(stacks), scale, run)
    return Combination(schedule, kernel, stacks, (kernel.out_avals,), True)


def _sum_of_rows(collective: Collective, ids: jax.Array, rows: jax.Array, scale: float) -> list[jax.Array]:
    """The sum of the rows of all replicas: as ids and rows where the update takes it so, else as a table."""
    num_rows = collective.outputs[0].shape[0]
    if collective.sum_rows is None:
        return [_scaled(plain_spread(rows, ids, num_rows), scale)]
    found, totals = summed_rows(ids, rows, num_rows, collective.sum_rows)
    return [found, _scaled(totals, scale)]


def _scaled(total: jax.Array, scale: float) -> jax.Array:
    return total if scale == 1 else total * jnp.asarray(scale, total.dtype)


def added(schedule: Schedule, parts: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """The sums of the ranks' arrays: those of one dtype are laid end to end, as they travel.

    Args:
        schedule: of the reduction.
        parts: for each rank its arrays.
    """
    sums = list(parts[0])
    by_dtype: dict[DType, list[int]] = {}
    for number, array in enumerate(parts[0]):
        by_dtype.setdefault(array.dtype, []).append(number)
    for numbers in by_dtype.values():
        totals = combined_packs(schedule, [[rank[n] for n in numbers] for rank in parts])
        for n, total in zip(numbers, totals, strict=True):
            sums[n] = total
    return sums


def added_stacks(schedule: Schedule, parts: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """As `added`, where the ranks' arrays are stacks already: for each part of the ranks [ranks of it, ...] each."""
    sums = list(parts[0])
    by_dtype: dict[DType, list[int]] = {}
    for number, stack in enumerate(sums):
        by_dtype.setdefault(stack.dtype, []).append(number)
    for numbers in by_dtype.values():
        totals = combined_stacks(schedule, [[stacks[n] for n in numbers] for stacks in parts])
        for number, total in zip(numbers, totals, strict=True):
            sums[number] = total
    return sums


def disagreement(device: str, collective: Collective, other_device: str, other: Collective, number: int) -> InvalidArgumentError:
    """The error for two replicas whose operands of collective `number` cannot be combined."""
    if (sizes := differing_sizes(collective.given_sizes, other.given_sizes, collective.num_replicas)) is not None:
        return InvalidArgumentError(
            f"{device} gave compute_average_loss global_batch_size={sizes[0]}, but {other_device} {sizes[1]}, before collective {number} "
            "of their group. It is the number of examples of all replicas together: give the same one everywhere, or leave it out."
        )
    one, another = str(collective), str(other)
    if collective.number != other.number:
        one, another = (f"{came} (number {came.number} of its step)" for came in (collective, other))
    elif one == another:  # they gather as much, and expect other lengths of the others
        one, another = (f"{one} into {_shapes(gathered.outputs)}" for gathered in (collective, other))
    return InvalidArgumentError(
        f"{device} came to {one}, but {other_device} to {another}, as collective {number} of their group. {_remedy(collective, other)}"
    )


def _shapes(avals: Sequence[Aval]) -> str:
    return ", ".join(str(list(aval.shape)) for aval in avals[:8]) + ", ..." * (len(avals) > 8)


def _can_be_joined(one: Aval, other: Aval) -> bool:
    """Whether two arrays can be joined along some axis."""
    if one.dtype != other.dtype or len(one.shape) != len(other.shape):
        return False
    return sum(length != other_length for length, other_length in zip(one.shape, other.shape, strict=True)) <= 1


def _kinds_of(avals: Sequence[Aval]) -> list[tuple[object, int]]:
    return [(aval.dtype, len(aval.shape)) for aval in avals]


def _remedy(one: Collective, other: Collective) -> str:
    """What the user can do about two collectives that do not agree."""
    if one.kind == other.kind == "all_gather" and len(one.operands) == len(other.operands):
        if not all(map(_can_be_joined, one.operands, other.operands)):
            return (
                "What is joined has one dtype and as many axes everywhere, and other lengths along the axis of the call alone, which is "
                "the same in all mains. Cast or reshape the values."
            )
        return (
            "A main writes its step down before it knows the lengths of the others, so what it gathers in a step must have one shape. "
            "Return the value from the step and use strategy.gather, which joins different lengths; or pad it to a common length."
        )
    if SPARSE_SUM in (one.kind, other.kind):
        return (
            "They look up rows of different tables. Look up rows of the same ones in all mains, also where there are none to look up; or "
            "read the tables as a whole, table.value[ids], in all of them."
        )
    same = "All replicas must build the same model and run the same step"
    if one.kind != other.kind or _kinds_of(one.operands) != _kinds_of(other.operands):  # calls of other purposes
        same += (
            ", equally often: where the data of one main end before those of others, pass steps_per_epoch (to an Estimator steps or "
            "max_steps), or repeat() them. What"
        )
    else:
        same += ", and what"
    return f"{same} reads logs, metrics or values of each replica (a callback, too) must do so in all mains; compare their mains."
