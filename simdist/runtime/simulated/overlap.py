"""Overlap: collectives that begin while the kernel that makes their operands is still running.

Source: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020, section 3.2.3.

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from simdist.cost.readiness import ready_fractions
from simdist.runtime.linked import LinkedCollective, LinkedOperation, RunKernel

__all__ = ["Early", "early_collectives"]


@dataclass(frozen=True, eq=False)
class Early:
    """A collective that can begin before the kernel that makes its operands has ended.

    Attributes:
        position: of the bundle among the kernel's outputs.
        fraction: of the kernel's time after which it is there.
    """

    collective: LinkedCollective
    position: int
    fraction: float


def early_collectives(operations: Sequence[LinkedOperation]) -> dict[int, tuple[Early, ...]]:
    """The collectives that need not wait for the end of the kernel before them, by the number of that kernel.

    Those are the collectives that follow it at once, in their order, as far as it makes their operands.
    """
    found: dict[int, tuple[Early, ...]] = {}
    for position, op in enumerate(operations):
        if isinstance(op, RunKernel):
            following = _following(op, operations[position + 1 :])
            if len(following) > 1:
                found[op.number] = _early(op, following)
    return found


def _following(run: RunKernel, later: Sequence[LinkedOperation]) -> list[LinkedCollective]:
    collectives: list[LinkedCollective] = []
    for op in later:
        if not isinstance(op, LinkedCollective) or op.operands not in run.outputs:
            break
        collectives.append(op)
    return collectives


def _early(run: RunKernel, collectives: Sequence[LinkedCollective]) -> tuple[Early, ...]:
    fractions = ready_fractions(run.kernel.priced)
    ends = list(accumulate(len(avals) for avals in run.writes))
    positions = [run.outputs.index(collective.operands) for collective in collectives]
    ready = [max(fractions[ends[position] - len(run.writes[position]) : ends[position]]) for position in positions]
    # Packs travel in their order: one that is ready before an earlier one waits for it.
    return tuple(
        Early(collective, position, at)
        for collective, position, at in zip(collectives, positions, accumulate(ready, max), strict=True)
        if at < 1.0
    )
