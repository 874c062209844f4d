"""Where two runs part."""

from __future__ import annotations

from dataclasses import dataclass

from simdist.trace import Trace
from simdist.trace.difference import first_difference
from simdist.trace.records import Span

__all__ = ["Comparison", "compared"]


@dataclass(frozen=True)
class Comparison:
    """Up to where two runs are the same.

    Args:
        same_until_s: the virtual second at which the first record that they do not share ends; None: they are the same so far.
        first, second: that record, and what the other run has in its place; "" where it has none.

    Example:
        >>> print(Comparison(0.009955, "worker:1 compute step", "worker:1 crash"))
        the same until 9.955 ms, then worker:1 compute step in the first, worker:1 crash in the second
    """

    same_until_s: float | None
    first: str = ""
    second: str = ""

    def __bool__(self) -> bool:
        """Whether they are the same."""
        return self.same_until_s is None

    def __str__(self) -> str:
        if self.same_until_s is None:
            return "the same"
        first, second = self.first or "nothing more", self.second or "nothing more"
        return f"the same until {self.same_until_s * 1e3:.6g} ms, then {first} in the first, {second} in the second"


def compared(first: Trace, second: Trace) -> Comparison:
    """Compare the records of two runs.

    Example:
        >>> first, second = Trace(), Trace()
        >>> _ = first.span("worker:0", "compute", "step", 0.0, 0.5), second.span("worker:0", "compute", "other step", 0.0, 0.5)
        >>> str(compared(first, second))
        'the same until 500 ms, then worker:0 compute step in the first, worker:0 compute other step in the second'
    """
    places = first_difference(first, second), first_difference(second, first)
    if places == (None, None):
        return Comparison(None)
    found = [_record(trace, place) for trace, place in zip((first, second), places, strict=True)]
    return Comparison(min(end_s for end_s, text in found if text), found[0][1], found[1][1])


def _record(trace: Trace, number: int | None) -> tuple[float, str]:
    if number is None or number >= trace.recorded:
        return 0.0, ""
    record = trace.record(number)
    end_s = record.end_s if isinstance(record, Span) else record.time_s
    return end_s, f"{record.lane} {record.category} {record.name}"
