"""Collectives over the fabric of a cluster: they take what their closed forms say, and what is in their way counts."""

from __future__ import annotations

import pytest

from simdist.collectives import ALGORITHMS
from simdist.hardware import Network
from simdist.runtime.simulated.transfers import RoutedSchedule, Transfers, idle
from simdist.runtime.simulated.transport import Transport
from simdist.runtime.simulated.uncontended import uncontended_seconds
from simdist.simulation.fabric import Fabric
from simdist.simulation.kernel import Clock
from simdist.simulation.network import SharedLinks
from simdist.trace import Trace

ALPHA_S, BANDWIDTH = 10e-6, 10e9
CASES = [(kind, name) for kind, known in ALGORITHMS.items() for name in known]


def routed(kind: str, name: str, ranks: int, size_bytes: float, network: Network | None = None) -> RoutedSchedule:
    hosts = [f"worker:{rank}" for rank in range(ranks)]
    fabric = Fabric(network or Network(bandwidth=BANDWIDTH, latency=ALPHA_S), hosts)
    return RoutedSchedule(ALGORITHMS[kind][name].schedule(ranks), lambda a, b: fabric.route(hosts[a], hosts[b]), size_bytes)


@pytest.mark.parametrize("size_bytes", [1e3, 1e6, 1e8])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_without_contention_a_collective_takes_its_closed_form(kind: str, name: str, size_bytes: float) -> None:
    expected = ALGORITHMS[kind][name].seconds(8, size_bytes, ALPHA_S, BANDWIDTH)
    assert max(uncontended_seconds(routed(kind, name, 8, size_bytes))) == pytest.approx(expected, rel=1e-9)


def test_uncontended_seconds_are_those_of_the_transfers() -> None:
    played = routed("all_reduce", "rabenseifner", 8, 1e6)
    clock, ends, gate = Clock(), dict[int, float](), None
    gate = clock.gate()
    transfers = Transfers(
        Transport(clock, SharedLinks(clock), Trace()),
        played,
        lambda rank: (ends.__setitem__(rank, clock.now), len(ends) == 8 and gate.open()),
    )
    for rank in range(8):
        transfers.begin(rank)
    clock.wait(gate)
    assert [ends[rank] for rank in range(8)] == uncontended_seconds(played)
    assert idle(played.links)


def test_a_rank_that_comes_late_delays_those_who_need_it() -> None:
    late = routed("all_reduce", "ring", 4, 4e6)
    clock, ends = Clock(), dict[int, float]()
    gate = clock.gate()
    transfers = Transfers(
        Transport(clock, SharedLinks(clock), Trace()),
        late,
        lambda rank: (ends.__setitem__(rank, clock.now), len(ends) == 4 and gate.open()),
    )
    for rank in range(3):
        transfers.begin(rank)
    clock.after(1.0, transfers.begin, 3)
    clock.wait(gate)
    assert min(ends.values()) > 1.0


def test_a_slow_link_of_one_rank_slows_the_whole_ring() -> None:
    network = Network(bandwidth=BANDWIDTH, latency=0.0)
    slow = network.with_link("worker:2/out", bandwidth=BANDWIDTH / 10)
    fast_s = max(uncontended_seconds(routed("all_reduce", "ring", 8, 1e8, network)))
    assert max(uncontended_seconds(routed("all_reduce", "ring", 8, 1e8, slow))) == pytest.approx(10 * fast_s, rel=1e-9)


def test_what_travels_already_is_in_the_way() -> None:
    busy = routed("all_reduce", "ring", 4, 4e7)
    clock = Clock()
    links, ends, gate = SharedLinks(clock), dict[int, float](), clock.gate()
    links.start((busy.links[0],), 1e9, lambda _: None)
    assert not idle(busy.links)
    transfers = Transfers(
        Transport(clock, links, Trace()), busy, lambda rank: (ends.__setitem__(rank, clock.now), len(ends) == 4 and gate.open())
    )
    for rank in range(4):
        transfers.begin(rank)
    clock.wait(gate)
    assert max(ends.values()) > 1.5 * max(uncontended_seconds(busy))


def test_a_collective_that_is_stopped_leaves_the_links_free() -> None:
    broken = routed("all_reduce", "ring", 4, 4e8)
    clock = Clock()
    links, ended = SharedLinks(clock), list[int]()
    transfers = Transfers(Transport(clock, links, Trace()), broken, ended.append)
    for rank in range(4):
        transfers.begin(rank)
    clock.sleep(1e-3)
    transfers.stop()
    clock.sleep(1.0)
    assert ended == []
    assert idle(broken.links)
