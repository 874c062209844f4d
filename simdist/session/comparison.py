"""Where two runs part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from simdist.trace import Trace
from simdist.trace.difference import first_difference
from simdist.trace.facts import canonical_json
from simdist.trace.records import Instant, Span

__all__ = ["Comparison", "Traced", "compare"]

DIGITS = (6, 9, 12, 17)  # of moments: the fewest that tell them apart


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
        same_s = self.same_until_s
        until = f"{same_s * 1e3:.6g} ms" if same_s < 1.0 else f"{same_s:.9g} s"
        return f"the same until {until}, then {first} in the first, {second} in the second"


class Traced(Protocol):
    """What has a trace: a session, or a cluster."""

    @property
    def trace(self) -> Trace: ...


def compare(first: Traced, second: Traced) -> Comparison:
    """Up to where two runs are the same, and the first difference.

    Args:
        first, second: sessions or clusters.

    Raises:
        TypeError: one is neither.

    Example:
        >>> import simdist as sd
        >>> def program(cluster):
        ...     sd.sleep(1.0, cluster)
        ...     cluster.trace.instant("chief:0", "mark", f"seed {cluster.seed}", cluster.now)
        >>> one, other = (sd.Session(program, sd.Cluster({"worker": 1}, seed=seed)) for seed in (1, 2))
        >>> for session in (one, other):
        ...     session.advance()
        >>> print(sd.compare(one, other))
        the same until 1 s, then chief:0 mark seed 1 in the first, chief:0 mark seed 2 in the second
        >>> print(sd.compare(one, one))
        the same
    """
    for name, given in (("first", first), ("second", second)):
        if not isinstance(getattr(given, "trace", None), Trace):
            raise TypeError(
                f"{name} is {given!r:.200}; expected a session or a cluster, whose trace is compared; of a strategy, its cluster"
            )
    traces = first.trace, second.trace
    places = first_difference(*traces), first_difference(*reversed(traces))
    if places == (None, None):
        return Comparison(None)
    records = [_record(trace, place) for trace, place in zip(traces, places, strict=True)]
    same_until_s = min(_end_s(record) for record in records if record is not None)
    return Comparison(same_until_s, *_apart(*records))


def _record(trace: Trace, number: int | None) -> Span | Instant | None:
    return None if number is None or number >= trace.recorded else trace.record(number)


def _end_s(record: Span | Instant) -> float:
    return record.end_s if isinstance(record, Span) else record.time_s


def _apart(*records: Span | Instant | None) -> list[str]:
    """What the records are, in as few words as tell one from the other."""
    texts: list[str] = []
    digits = next((few for few in DIGITS if len({_when(record, few) for record in records if record is not None}) > 1), DIGITS[0])
    for words in (_what, partial(_when, digits=digits), _with_what):
        texts = [
            text if record is None else f"{text} {words(record)}".strip() for text, record in zip(texts or ("", ""), records, strict=True)
        ]
        if texts[0] != texts[1]:
            break
    return texts


def _what(record: Span | Instant) -> str:
    said = record.name.split()  # "crash of worker:1" is a crash on the lane of worker:1, and needs no word more
    return " ".join([*(word for word in (record.lane, record.category) if word not in said), record.name])


def _when(record: Span | Instant, digits: int) -> str:
    moments = (record.start_s, record.end_s) if isinstance(record, Span) else (record.time_s,)
    texts = [np.format_float_positional(moment, precision=digits, fractional=False, trim="-") for moment in moments]
    return f"{'from' if len(texts) > 1 else 'at'} {' to '.join(texts)} s"


def _with_what(record: Span | Instant) -> str:
    return f"with {canonical_json(record.facts)}"
