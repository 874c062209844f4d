"""Bus bandwidth: what the best algorithm reaches is the port's bandwidth, for any number of ranks."""

from __future__ import annotations

import pytest

from simdist.collectives import algorithm, bus_bandwidth
from simdist.errors import InvalidArgumentError


@pytest.mark.parametrize("n", [2, 3, 8, 64])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_ring_without_latency_reaches_the_bandwidth_of_a_port(kind: str, n: int) -> None:
    seconds = algorithm(kind, "ring").seconds(n, 1e6, 0.0, 10e9)
    assert bus_bandwidth(kind, n, 1e6, seconds) == pytest.approx(10e9, rel=1e-9)


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_broadcast_and_reduce_count_once(kind: str) -> None:
    assert bus_bandwidth(kind, 8, 1e6, 0.5) == 2e6


def test_all_reduce_of_the_table() -> None:
    assert bus_bandwidth("all_reduce", 8, 100e6, 17.64e-3) == pytest.approx(100e6 / 17.64e-3 * 1.75, rel=1e-12)


def test_unknown_kind_and_no_time_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'all_reduce'"):
        bus_bandwidth("allreduce", 8, 1.0, 1.0)
    with pytest.raises(InvalidArgumentError, match="seconds must be more than 0"):
        bus_bandwidth("all_reduce", 8, 1.0, 0.0)
    with pytest.raises(TypeError):
        bus_bandwidth("all_reduce", 8.5, 1.0, 1.0)  # type: ignore[arg-type]
