"""The choice of an all-reduce: the fastest of the candidates, on the network and by the network's own account."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.collectives import ALL_REDUCE, choose, predicted_seconds
from simdist.collectives.choose import CANDIDATES, _loads
from simdist.collectives.ring import RING
from simdist.errors import InvalidArgumentError
from timed_schedule import timed

ALPHA_S, BANDWIDTH = 10e-6, 10e9


def on_hosts(schedule: Any, size_bytes: float, ranks_per_host: int, inner_latency_s: float, inner_bandwidth: float) -> float:
    return timed(schedule, size_bytes, ALPHA_S, BANDWIDTH, ranks_per_host, inner_latency_s, inner_bandwidth)


@pytest.mark.parametrize(
    ("num_ranks", "size_bytes", "name"),
    [
        (8, 1e3, "recursive doubling"),
        (8, 1e6, "rabenseifner"),
        (8, 100e6, "rabenseifner"),
        (7, 100e6, "ring"),
        (3, 100e6, "ring"),
        (9, 1e3, "recursive doubling"),
        (64, 0.0, "recursive doubling"),
    ],
)
def test_cpu_takes_the_fastest_of_the_table(num_ranks: int, size_bytes: float, name: str) -> None:
    assert choose(num_ranks, size_bytes, ALPHA_S, BANDWIDTH).name == name


def test_gpu_takes_trees_for_short_and_the_ring_for_long_messages() -> None:
    chosen = [choose(64, size_bytes, ALPHA_S, BANDWIDTH, device_kind="gpu") for size_bytes in (1e3, 1e5, 2e6, 1e9)]
    assert [algorithm.name for algorithm in chosen] == ["double tree", "double tree", "double tree", "ring"]
    pieces = [algorithm.schedule(64).num_chunks // 2 for algorithm in chosen[:3]]
    assert pieces == sorted(pieces)
    assert pieces[0] == 1 < pieces[-1]


def test_devices_of_different_kinds_reduce_to_one_and_tpus_use_the_ring() -> None:
    assert choose(4, 1e6, ALPHA_S, BANDWIDTH, device_kind="mixed").name == "reduction to one"
    assert choose(4, 1e6, ALPHA_S, BANDWIDTH, device_kind="tpu").name == "ring"


def test_ring_crosses_a_shared_port_once_and_is_therefore_chosen_on_hosts_with_many_ranks() -> None:
    assert choose(16, 100e6, ALPHA_S, BANDWIDTH).name == "rabenseifner"
    assert choose(16, 100e6, ALPHA_S, BANDWIDTH, ranks_per_host=8).name == "ring"
    shared = {name: on_hosts(known.schedule(16), 100e6, 8, ALPHA_S, BANDWIDTH) for name, known in ALL_REDUCE.items()}
    assert min(shared, key=shared.__getitem__) == "ring"


@given(
    kind=st.sampled_from(["cpu", "gpu"]),
    num_ranks=st.integers(1, 17),
    size_bytes=st.floats(1.0, 1e9),
    latency_s=st.floats(0.0, 1e-3),
    bandwidth=st.floats(1e7, 1e11),
)
@examples(40)
def test_no_candidate_is_faster_on_a_simulated_switch(
    kind: str, num_ranks: int, size_bytes: float, latency_s: float, bandwidth: float
) -> None:
    chosen = choose(num_ranks, size_bytes, latency_s, bandwidth, device_kind=kind)
    figures = (size_bytes, latency_s, bandwidth)
    least_s = min(timed(candidate.schedule(num_ranks), *figures) for candidate in CANDIDATES[kind])
    assert timed(chosen.schedule(num_ranks), *figures) <= least_s * (1 + 1e-9)


@pytest.mark.parametrize("name", ["recursive doubling", "rabenseifner"])
@pytest.mark.parametrize("ranks_per_host", [2, 4])
def test_prediction_on_shared_ports_is_what_the_network_takes_where_all_hosts_do_the_same(name: str, ranks_per_host: int) -> None:
    simulated_s = on_hosts(ALL_REDUCE[name].schedule(16), 1e7, ranks_per_host, 1e-6, 50e9)
    predicted_s = predicted_seconds(
        ALL_REDUCE[name],
        16,
        1e7,
        ALPHA_S,
        BANDWIDTH,
        ranks_per_host=ranks_per_host,
        intra_host_latency_s=1e-6,
        intra_host_bandwidth_bytes_per_s=50e9,
    )
    assert simulated_s == pytest.approx(predicted_s, rel=1e-9)


@given(
    name=st.sampled_from(["ring", "recursive doubling", "rabenseifner", "binomial", "double tree"]),
    num_ranks=st.integers(2, 17),
    ranks_per_host=st.integers(1, 9),
    size_bytes=st.floats(1.0, 1e8),
    inner_latency_s=st.floats(0.0, ALPHA_S),
    inner_bandwidth=st.floats(BANDWIDTH, 1e12),
)
@examples(60)
def test_prediction_on_any_hosts_is_near_what_the_network_takes(
    name: str, num_ranks: int, ranks_per_host: int, size_bytes: float, inner_latency_s: float, inner_bandwidth: float
) -> None:
    simulated_s = on_hosts(ALL_REDUCE[name].schedule(num_ranks), size_bytes, ranks_per_host, inner_latency_s, inner_bandwidth)
    predicted_s = predicted_seconds(
        ALL_REDUCE[name],
        num_ranks,
        size_bytes,
        ALPHA_S,
        BANDWIDTH,
        ranks_per_host=ranks_per_host,
        intra_host_latency_s=inner_latency_s,
        intra_host_bandwidth_bytes_per_s=inner_bandwidth,
    )
    # Ranks that are ahead of others gain time, and take bandwidth from others' earlier steps.
    assert 0.8 * simulated_s <= predicted_s <= 2 * simulated_s


@pytest.mark.parametrize(("num_ranks", "ranks_per_host"), [(4, 2), (7, 3), (16, 4)])
def test_short_cut_for_the_ring_is_what_counting_finds(num_ranks: int, ranks_per_host: int) -> None:
    counted = _loads(lambda n: RING.schedule(n), num_ranks, ranks_per_host)
    assert counted == _loads(RING.schedule, num_ranks, ranks_per_host)


def test_one_host_uses_the_figures_within_it() -> None:
    inside = predicted_seconds(
        RING, 8, 1e6, 1.0, 1.0, ranks_per_host=8, intra_host_latency_s=ALPHA_S, intra_host_bandwidth_bytes_per_s=BANDWIDTH
    )
    assert inside == RING.seconds(8, 1e6, ALPHA_S, BANDWIDTH)
    assert predicted_seconds(RING, 8, 1e6, ALPHA_S, BANDWIDTH, ranks_per_host=8) == inside


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'gpu'"):
        choose(8, 1e6, ALPHA_S, BANDWIDTH, device_kind="gpus")
    with pytest.raises(InvalidArgumentError, match="num_ranks must be 1 or more"):
        choose(0, 1e6, ALPHA_S, BANDWIDTH)
    with pytest.raises(InvalidArgumentError, match="bandwidth_bytes_per_s must be more than 0"):
        choose(8, 1e6, ALPHA_S, 0.0)
    with pytest.raises(InvalidArgumentError, match="latency_s must be 0 or more"):
        choose(8, 1e6, -1.0, BANDWIDTH)
