"""Overlap: exchanges that begin while the kernel that makes their operands is still running.

Source: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020, section 3.2.3.

Taught in lesson 03.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from simdist.program.readiness import ready_fractions
from simdist.runtime.linked import LinkedOperation, Meeting, Run

__all__ = ["Early", "early_exchanges"]


@dataclass(frozen=True, eq=False)
class Early:
    """An exchange that can begin before the kernel has ended that makes what is exchanged.

    Attributes:
        place: of the bundle among the kernel's outputs.
        fraction: of the kernel's time after which it is there.
    """

    meeting: Meeting
    place: int
    fraction: float


def early_exchanges(operations: Sequence[LinkedOperation]) -> dict[int, tuple[Early, ...]]:
    """The exchanges that need not wait for the end of the kernel before them, by the number of that kernel.

    Those are the exchanges that follow it at once, in their order, as far as it makes what they exchange.
    """
    found: dict[int, tuple[Early, ...]] = {}
    for place, op in enumerate(operations):
        if isinstance(op, Run):
            following = _following(op, operations[place + 1 :])
            if len(following) > 1:
                found[op.number] = _early(op, following)
    return found


def _following(run: Run, later: Sequence[LinkedOperation]) -> list[Meeting]:
    meetings: list[Meeting] = []
    for op in later:
        if not isinstance(op, Meeting) or op.operands not in run.outputs:
            break
        meetings.append(op)
    return meetings


def _early(run: Run, meetings: Sequence[Meeting]) -> tuple[Early, ...]:
    fractions = ready_fractions(run.kernel)
    ends = list(accumulate(len(avals) for avals in run.writes))
    places = [run.outputs.index(meeting.operands) for meeting in meetings]
    ready = [max(fractions[ends[place] - len(run.writes[place]) : ends[place]]) for place in places]
    # Packs travel in their order: one that is ready before an earlier one waits for it.
    return tuple(Early(meeting, place, at) for meeting, place, at in zip(meetings, places, accumulate(ready, max), strict=True) if at < 1.0)
