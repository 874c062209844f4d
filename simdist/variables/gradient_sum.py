"""The sum of the replicas' gradients: packed into few large messages, and compressed.

Gradients are packed in reverse order, because those of the last layers are known first: their pack can travel while the
others are still being computed. Gradients of tables of which rows were looked up come last and alone, if their rows are fewer bytes than
the table (`simdist.program.sparse_sums`).

Source: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020, section 3.2 (buckets).

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from simdist.collectives.compression import Compressor
from simdist.collectives.packing import pack_gradients, split_in_packs
from simdist.program.operations import VariableHandle
from simdist.program.sparse_sums import rows_travel
from simdist.program.tracing import Tracer
from simdist.program.values import aval_of

__all__ = ["GradientPolicy", "policy_of", "summed_over_replicas", "with_rows_apart"]


@dataclass(frozen=True)
class GradientPolicy:
    """How the gradients of several replicas are combined.

    Args:
        bytes_per_pack: a new pack begins after one that has more bytes than this; 0: one pack for each dtype.
        num_packs: above 1: all gradients of a dtype end to end, cut into so many equal parts.
        compression: what makes them smaller on their way; None for nothing.
        local: True: they are not added at all, because each replica takes steps of its own.
        by_rows: whether those of tables of which rows are looked up may travel as rows; default True.
        tables_apart: each table of which rows are looked up has a collective of its own, also where it is small. A main needs that: it does
            not know how many rows the others look up, and all must take part in the same collectives. Default False.
        reads_rows: replicas read rows of tables together, and say so where they cannot. Default False: each has the tables.
        in_order: replicas wait for each other at updates, too, so updates and collectives keep the order in which they were traced. Default
            False: a collective may come before an update that was traced before it.
        waits_for_all: whether each step waits for all replicas; default True.
    """

    bytes_per_pack: int = 0
    num_packs: int = 1
    compression: Compressor | None = None
    local: bool = False
    by_rows: bool = True
    tables_apart: bool = False
    reads_rows: bool = False
    in_order: bool = False
    waits_for_all: bool = True

    @property
    def gathers_rows(self) -> bool:
        """Whether the gradient of a table may travel as rows; compressors take dense gradients."""
        return self.by_rows and not self.local and self.compression is None

    def fallback(self) -> GradientPolicy | None:
        """The policy with which replicas agree that look up different numbers of rows, or rows of different tables; None: with this one."""
        if not self.gathers_rows:
            return None
        return self.of_tables() if self.tables_apart else replace(self, tables_apart=True)

    def of_tables(self) -> GradientPolicy:
        """The same, where gradients of tables are tables."""
        return replace(self, by_rows=False)


def policy_of(tracer: Tracer) -> GradientPolicy:
    """What the strategy whose step is traced wants of the gradients."""
    return tracer.options if isinstance(tracer.options, GradientPolicy) else GradientPolicy()


def summed_over_replicas(tracer: Tracer, gradients: Sequence[jax.Array], variables: Sequence[VariableHandle]) -> list[jax.Array]:
    """The sums of gradients over all replicas of the step that is being traced.

    Args:
        tracer: of the step; its options are the `GradientPolicy`.
        gradients: of this replica, one (p...) for each variable.
        variables: those of the gradients, in their order.

    Returns:
        The sums over the r replicas, of the same shapes (p...).
    """
    policy = policy_of(tracer)
    apart = [number for number, variable in enumerate(variables) if _is_apart(tracer, policy, variable)]
    together = [number for number in range(len(variables)) if number not in apart]
    sums = list(gradients)
    for number, total in zip(together, _summed_together(tracer, policy, [gradients[number] for number in together]), strict=True):
        sums[number] = total
    for number in reversed(apart):
        sums[number] = tracer.sparse_sum(gradients[number], number)
    return sums


def with_rows_apart(tracer: Tracer, gradients: Sequence[jax.Array], variables: Sequence[VariableHandle]) -> list[jax.Array]:
    """The gradients of a single replica: those of tables of which few rows were looked up may go to the update as rows.

    Args:
        tracer, gradients, variables: as of `summed_over_replicas`.
    """
    if not isinstance(tracer.options, GradientPolicy) or not tracer.options.gathers_rows or tracer.options.reads_rows:
        return list(gradients)
    policy = replace(tracer.options, tables_apart=False)
    return [
        tracer.sparse_sum(gradient, number) if _is_apart(tracer, policy, variable) else gradient
        for number, (gradient, variable) in enumerate(zip(gradients, variables, strict=True))
    ]


def _is_apart(tracer: Tracer, policy: GradientPolicy, variable: VariableHandle) -> bool:
    """Whether the gradient of a variable has a collective of its own, because rows of it were looked up since it was last changed."""
    num_ids = tracer.lookup_counts.pop(variable.ref(), None)
    if policy.tables_apart:
        return variable.ref() in tracer.tables  # also where the same gradient is added once more
    return num_ids is not None and rows_travel(num_ids, tracer.num_replicas, variable.aval)


def _summed_together(tracer: Tracer, policy: GradientPolicy, gradients: Sequence[jax.Array]) -> list[jax.Array]:
    """The sums of gradients that are packed."""
    if not gradients:
        return []
    if policy.local:
        # Losses are shares of the global batch; a replica that goes on alone takes its own share for the whole.
        return [gradient * tracer.num_replicas for gradient in gradients]
    sums: list[jax.Array] = list(gradients)
    avals = [aval_of(gradient) for gradient in gradients]
    for pack in pack_gradients([aval.size_bytes for aval in avals], [aval.dtype for aval in avals], policy.bytes_per_pack):
        if policy.num_packs > 1:
            pack.reverse()  # end to end in the order of the variables
            totals = _in_equal_packs(tracer, [gradients[number] for number in pack], policy.num_packs)
        else:
            totals = tracer.collective("all_reduce", [gradients[number] for number in pack], label="gradients", is_for_update=True)
        for number, total in zip(pack, totals, strict=True):
            sums[number] = total
    return sums


def _in_equal_packs(tracer: Tracer, gradients: Sequence[jax.Array], num_packs: int) -> list[jax.Array]:
    """Gradients of one dtype end to end, cut into equal parts; fewer numbers than parts are all in one: no pack is empty."""
    flat = jnp.concatenate([gradient.reshape(-1) for gradient in gradients])
    parts: list[jax.Array] = []
    start = 0
    for length in split_in_packs(flat.size, num_packs if num_packs <= flat.size else 1):
        parts += tracer.collective("all_reduce", [flat[start : start + length]], label="gradients", is_for_update=True)
        start += length
    total, start = jnp.concatenate(parts), 0
    sums: list[jax.Array] = []
    for gradient in gradients:
        sums.append(total[start : start + gradient.size].reshape(gradient.shape))
        start += gradient.size
    return sums
