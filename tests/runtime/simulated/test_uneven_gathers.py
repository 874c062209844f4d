"""An all-gather of different lengths costs what one filled up to the longest does, whoever comes first."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import simdist as sd

BANDWIDTH = 1e6
ROW_BYTES = 400


def gathered(lengths: tuple[tuple[int, ...], ...], slow: str | None = None) -> tuple[list[tuple[int, ...]], float, sd.Cluster]:
    """What each array is, joined, the bytes that all have sent, and the cluster.

    Args:
        lengths: for each replica those of its arrays.
        slow: a worker that comes last.
    """
    network = sd.hardware.Network(bandwidth=BANDWIDTH, latency=0.0)
    cluster = sd.Cluster({"worker": len(lengths)}, network=network, hardware=sd.hardware.Device(launch_overhead=1e-4))
    if slow is not None:
        cluster.faults.slow(slow, factor=3.0, at=0.0)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)

    def given(number: int) -> Any:
        return strategy.experimental_distribute_values_from_function(
            lambda context: np.ones((lengths[context.replica_id_in_sync_group][number], ROW_BYTES // 4), np.float32)
        )

    @sd.function
    def step(*values: Any) -> Any:
        def joined(*arrays: Any) -> Any:
            context: Any = sd.get_replica_context()
            return context.all_gather([array * 2 for array in arrays], axis=0)

        return strategy.run(joined, args=values)

    result = step(*map(given, range(len(lengths[0]))))
    shapes = [strategy.experimental_local_results(array)[0].shape for array in result]
    sent = sum(figures["bytes_sent"] for figures in cluster.trace.summary()["lanes"].values())
    return shapes, sent, cluster


def seconds_of(cluster: sd.Cluster) -> float:
    return max(span.end_s - span.start_s for span in cluster.trace.spans if span.category == "collective")


@pytest.mark.parametrize("slow", [None, "worker:0", "worker:2"])
@pytest.mark.parametrize("rows", sorted(set(permutations((1, 40, 40)))))
def test_bytes_and_seconds_are_those_of_the_longest_whoever_comes_first(rows: tuple[int, ...], slow: str | None) -> None:
    shapes, sent, cluster = gathered(tuple((one,) for one in rows), slow)
    assert shapes == [(81, 100)]
    # A ring: each rank passes on two parts, one after the other.
    assert sent == 3 * 2 * 40 * ROW_BYTES
    assert seconds_of(cluster) == pytest.approx(2 * 40 * ROW_BYTES / BANDWIDTH)


def test_each_array_is_filled_up_to_its_longest() -> None:
    shapes, sent, _ = gathered(((1, 30), (20, 2), (3, 4)))
    assert shapes == [(24, 100), (36, 100)]
    assert sent == 3 * 2 * (20 + 30) * ROW_BYTES


def test_the_span_of_a_replica_has_the_bytes_of_its_array() -> None:
    _, _, cluster = gathered(((1,), (40,), (7,)))
    found = {span.lane: span.facts["bytes"] for span in cluster.trace.spans if span.category == "collective"}
    assert found == {"worker:0": 1 * ROW_BYTES, "worker:1": 40 * ROW_BYTES, "worker:2": 7 * ROW_BYTES}
