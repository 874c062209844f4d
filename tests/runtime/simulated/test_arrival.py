"""The arrival of a replica at a collective ends once, with a result or an error."""

from __future__ import annotations

from typing import Any

from simdist.runtime.simulated.arrival import Arrival


def test_an_arrival_ends_once_and_says_so_once() -> None:
    at: Any = None
    arrival, ended = Arrival(at, at, "worker:0", 1.5, False), list[Arrival]()
    arrival.then(ended.append)
    error = ValueError("the others came with other shapes")
    arrival.end(None, error)
    arrival.end(None, ValueError("later"))
    assert (arrival.over, arrival.result, arrival.error, ended) == (True, None, error, [arrival])


def test_a_gather_counts_what_the_replica_has_and_a_sparse_sum_what_travels() -> None:
    class Of:
        def __init__(self, kind: str, size_bytes: float) -> None:
            self.kind, self.size_bytes = kind, size_bytes

    class At:
        def __init__(self, collective: Of) -> None:
            self.collective = collective

    def size_bytes(kind: str) -> float:
        at: Any = At(Of(kind, 12.0))
        came_for: Any = Of(kind, 8.0)
        return Arrival(at, came_for, "worker:0", 0.0, False).size_bytes

    assert (size_bytes("all_gather"), size_bytes("sparse_sum")) == (8.0, 12.0)
