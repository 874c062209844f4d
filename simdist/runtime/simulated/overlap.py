"""Overlap: exchanges that begin while the kernel that makes their operands is still running.

Source: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020, section 3.2.3.

Taught in lesson 03.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from simdist.program.readiness import ready_fractions
from simdist.runtime.linked import Early, LinkedOperation, Meeting, Run

__all__ = ["with_early_exchanges"]


def with_early_exchanges(operations: Sequence[LinkedOperation]) -> tuple[LinkedOperation, ...]:
    """The operations of a step, where each kernel knows the exchanges that need not wait for its end.

    Those are the exchanges that follow it at once, in their order, as far as it makes what they exchange.
    """
    result = list(operations)
    for number, op in enumerate(result):
        if isinstance(op, Run):
            following = _following(op, result[number + 1 :])
            if len(following) > 1:
                result[number] = replace(op, early=_early(op, following))
    return tuple(result)


def _following(run: Run, later: Sequence[LinkedOperation]) -> list[Meeting]:
    meetings: list[Meeting] = []
    for op in later:
        if not isinstance(op, Meeting) or op.operands not in run.outputs:
            break
        meetings.append(op)
    return meetings


def _early(run: Run, meetings: Sequence[Meeting]) -> tuple[Early, ...]:
    fractions = ready_fractions(run.site.kernel)
    ends = list(accumulate(len(avals) for avals in run.site.writes))
    places = [run.outputs.index(meeting.operands) for meeting in meetings]
    ready = [max(fractions[ends[place] - len(run.site.writes[place]) : ends[place]]) for place in places]
    # Packs travel in their order: one that is ready before an earlier one waits for it.
    return tuple(Early(meeting, place, at) for meeting, place, at in zip(meetings, places, accumulate(ready, max), strict=True) if at < 1.0)
