"""Flows on a fabric against closed forms, to 1e-9: contention, rings, parameter servers, racks, torus, inside of hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import pytest

from simdist.hardware import LinkModel, Network
from simdist.simulation.fabric import Fabric
from simdist.simulation.kernel import Clock
from simdist.simulation.network import SharedLinks

Message = tuple[str, str, float]  # from, to, bytes

BANDWIDTH, LATENCY, SIZE = 1e9, 1e-4, 3e6
NETWORK = Network(bandwidth=BANDWIDTH, latency=LATENCY)


def exactly(seconds: float) -> object:
    return pytest.approx(seconds, rel=1e-9)


def hosts(count: int, job: str = "worker") -> list[str]:
    return [f"{job}:{i}" for i in range(count)]


class Run:
    """Messages on a fabric in virtual time."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric, self.clock = fabric, Clock()
        self.shared = SharedLinks(self.clock)

    def send(self, message: Message, arrived: Callable[[], None]) -> None:
        source, target, num_bytes = message
        route = self.fabric.route(source, target)
        self.clock.after(route.latency_s, lambda _: self.shared.start(route.links, num_bytes, lambda _: arrived()))

    def rounds(self, *rounds: Iterable[Message]) -> list[float]:
        """When each message of the last round arrived; a round begins when the one before has ended."""
        ends: list[float] = []
        for messages in rounds:
            done, left, ends = self.clock.gate(), list(messages), []

            def arrived(done: object = done, ends: list[float] = ends, count: int = len(left)) -> None:
                ends.append(self.clock.now)
                if len(ends) == count:
                    done.open()  # pyright: ignore

            for message in left:
                self.send(message, arrived)
            self.clock.wait(done)
        return ends


def end(network: Network, names: Sequence[str], *rounds: Iterable[Message], devices: dict[str, list[str]] | None = None) -> float:
    return max(Run(Fabric(network, names, devices)).rounds(*rounds))


# -- one link, one switch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 7, 64])
def test_equal_flows_on_one_link_get_an_equal_share(k: int) -> None:
    ends = Run(Fabric(NETWORK, hosts(k + 1))).rounds([(f"worker:{i}", f"worker:{k}", SIZE) for i in range(k)])
    assert ends == [exactly(LATENCY + k * SIZE / BANDWIDTH)] * k


def test_eight_senders_of_200_messages_into_one_port_need_16_seconds_and_latencies() -> None:
    network = NETWORK.with_port("ps:0", bandwidth=100e6)
    run = Run(Fabric(network, [*hosts(8), "ps:0"]))
    left, ends = dict.fromkeys(hosts(8), 200), []

    def next_of(sender: str) -> None:
        if not left[sender]:
            ends.append(run.clock.now)
            return
        left[sender] -= 1
        run.send((sender, "ps:0", 1e6), lambda: next_of(sender))

    for sender in hosts(8):
        next_of(sender)
    run.clock.sleep(20.0)
    assert ends == [exactly(16.0 + 200 * LATENCY)] * 8


@pytest.mark.parametrize("n", [2, 3, 8, 17])
def test_ring_on_a_full_duplex_switch_is_not_slowed_by_sharing_it(n: int) -> None:
    steps = 2 * (n - 1)
    ring = [(f"worker:{i}", f"worker:{(i + 1) % n}", SIZE / n) for i in range(n)]
    assert end(NETWORK, hosts(n), *[ring] * steps) == exactly(steps * (LATENCY + SIZE / n / BANDWIDTH))


def test_slow_port_slows_the_whole_ring() -> None:
    ring = [(f"worker:{i}", f"worker:{(i + 1) % 4}", SIZE) for i in range(4)]
    assert end(NETWORK.with_port("worker:2", bandwidth=BANDWIDTH / 5), hosts(4), ring) == exactly(LATENCY + 5 * SIZE / BANDWIDTH)


# -- parameter servers ------------------------------------------------------------------------------------------------------


def lockstep(workers: int, shares: Sequence[float], size: float, b_worker: float, b_ps: float) -> float:
    """A round of pull, then push, without its latencies; `shares` says which part of the model each server has."""
    network, names = Network(bandwidth=b_worker, latency=LATENCY), [*hosts(workers), *hosts(len(shares), "ps")]
    for server in range(len(shares)):
        network = network.with_port(f"ps:{server}", bandwidth=b_ps)
    parts = [(worker, f"ps:{server}", share * size) for worker in hosts(workers) for server, share in enumerate(shares) if share]
    return end(network, names, [(server, worker, part) for worker, server, part in parts], parts) - 2 * LATENCY


@pytest.mark.parametrize(
    ("workers", "servers", "b_worker", "b_ps"),
    [(1, 1, 1e9, 1e9), (8, 1, 1e9, 1e9), (8, 4, 1e9, 1e9), (4, 8, 1e9, 1e9), (6, 3, 1e9, 4e9), (12, 3, 1e9, 4e9), (5, 2, 3e9, 1e9)],
)
def test_parameter_server_round_is_limited_by_workers_or_by_servers(workers: int, servers: int, b_worker: float, b_ps: float) -> None:
    expected = max(2 * SIZE / b_worker, 2 * workers * SIZE / (servers * b_ps))
    assert lockstep(workers, [1 / servers] * servers, SIZE, b_worker, b_ps) == exactly(expected)


def test_knee_is_where_the_ports_of_both_sides_are_equal() -> None:
    times = {workers: lockstep(workers, [1 / 2] * 2, SIZE, 1e9, 4e9) for workers in (1, 7, 8, 9, 16)}
    assert times[1] == times[7] == exactly(times[8])  # N / P = B_ps / B_worker at 8 workers
    assert times[9] == exactly(times[8] * 9 / 8)
    assert times[16] == exactly(times[8] * 2)


def test_more_servers_never_make_a_round_longer() -> None:
    times = [lockstep(8, [1 / servers] * servers, SIZE, 1e9, 1e9) for servers in (1, 2, 3, 5, 8, 10)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(times))


@pytest.mark.parametrize(("workers", "milliseconds"), [(1, 100.0), (100, 625.0)])
def test_100_megabytes_on_16_servers(workers: int, milliseconds: float) -> None:
    assert lockstep(workers, [1 / 16] * 16, 100e6, 2e9, 2e9) * 1e3 == exactly(milliseconds)


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_hot_variable_caps_what_more_servers_gain(servers: int) -> None:
    hot = 0.6  # of all bytes, on one server; the others share the rest
    time = lockstep(8, [hot, *[(1 - hot) / (servers - 1)] * (servers - 1)], SIZE, 1e9, 1e9)
    assert time == exactly(2 * 8 * hot * SIZE / 1e9)


# -- racks ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oversubscription", [0.5, 1.0, 2.0, 4.0])
def test_pairs_between_racks_share_the_uplink(oversubscription: float) -> None:
    network = NETWORK.in_racks(4, oversubscription, hop_latency=1e-5)
    pairs = [(f"worker:{i}", f"worker:{i + 4}", SIZE) for i in range(4)]
    assert end(network, hosts(8), pairs) == exactly(LATENCY + 2e-5 + max(1.0, oversubscription) * SIZE / BANDWIDTH)


def test_pairs_in_a_rack_do_not_meet_the_uplink() -> None:
    network = NETWORK.in_racks(4, oversubscription=100.0)
    pairs = [(f"worker:{i}", f"worker:{i ^ 1}", SIZE) for i in range(8)]
    assert end(network, hosts(8), pairs) == exactly(LATENCY + SIZE / BANDWIDTH)


@pytest.mark.parametrize(("racks", "tasks", "oversubscription"), [(2, 4, 2.0), (3, 2, 4.0), (4, 3, 1.5)])
def test_all_to_all_between_racks_is_limited_by_the_uplinks(racks: int, tasks: int, oversubscription: float) -> None:
    n = racks * tasks
    assert oversubscription * (n - tasks) >= n - 1  # otherwise the ports would limit it
    everyone = [(a, b, SIZE) for a in hosts(n) for b in hosts(n) if a != b]
    expected = LATENCY + oversubscription * (n - tasks) * SIZE / BANDWIDTH
    assert end(NETWORK.in_racks(tasks, oversubscription), hosts(n), everyone) == exactly(expected)


def test_thin_uplink_holds_up_only_its_rack() -> None:
    network = NETWORK.in_racks(1).with_link("rack:0/up", bandwidth=BANDWIDTH / 8)
    ends = Run(Fabric(network, hosts(3))).rounds([("worker:0", "worker:1", SIZE), ("worker:1", "worker:2", SIZE)])
    assert ends == [exactly(LATENCY + SIZE / BANDWIDTH), exactly(LATENCY + 8 * SIZE / BANDWIDTH)]


# -- torus ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "stride"), [((4, 4), 1), ((4, 4, 4), 1), ((4, 4, 4), 4), ((4, 4, 4), 16), ((3, 5), 5)])
def test_rings_of_neighbours_in_a_torus_share_nothing(shape: tuple[int, ...], stride: int) -> None:
    count = 1
    for length in shape:
        count *= length
    axis = {1: len(shape) - 1, 4: 1, 5: 0, 16: 0}[stride]
    length = shape[axis]
    ahead = [i - i // stride % length * stride + (i // stride + 1) % length * stride for i in range(count)]
    back = [ahead.index(i) for i in range(count)]
    both_ways = [(f"worker:{i}", f"worker:{j}", SIZE) for there in (ahead, back) for i, j in enumerate(there)]
    assert end(NETWORK.as_torus(shape), hosts(count), both_ways) == exactly(LATENCY + SIZE / BANDWIDTH)


@pytest.mark.parametrize(("length", "shift"), [(4, 2), (7, 3), (8, 3), (8, 4)])
def test_shift_in_a_ring_loads_each_link_as_often_as_it_has_hops(length: int, shift: int) -> None:
    shifted = [(f"worker:{i}", f"worker:{(i + shift) % length}", SIZE) for i in range(length)]
    assert end(NETWORK.as_torus((length,)), hosts(length), shifted) == exactly(shift * (LATENCY + SIZE / BANDWIDTH))


# -- inside of hosts --------------------------------------------------------------------------------------------------------

INNER = 4e9
GPUS = {"worker:0": [f"worker:0/gpu:{i}" for i in range(8)], "worker:1": [f"worker:1/gpu:{i}" for i in range(8)]}


@pytest.mark.parametrize(("shared", "slower"), [(False, 1), (True, 8)])
def test_ring_of_devices_runs_at_full_speed_unless_they_share_a_bus(shared: bool, slower: int) -> None:
    network = NETWORK.within_host(LinkModel(bandwidth=INNER, latency=1e-6, shared=shared))
    ring = [(f"worker:0/gpu:{i}", f"worker:0/gpu:{(i + 1) % 8}", SIZE) for i in range(8)]
    assert end(network, hosts(2), ring, devices=GPUS) == exactly(1e-6 + slower * SIZE / INNER)


@pytest.mark.parametrize(("senders", "inner"), [(1, INNER), (8, INNER), (8, BANDWIDTH / 2)])
@pytest.mark.parametrize("shared", [False, True])
def test_devices_of_two_hosts_are_limited_by_the_narrowest_link(senders: int, inner: float, shared: bool) -> None:
    network = NETWORK.within_host(LinkModel(bandwidth=inner, latency=1e-6, shared=shared))
    pairs = [(f"worker:0/gpu:{i}", f"worker:1/gpu:{i}", SIZE) for i in range(senders)]
    through_bus = senders * SIZE / inner if shared else SIZE / inner
    expected = LATENCY + 1e-6 + max(senders * SIZE / BANDWIDTH, through_bus)
    assert end(network, hosts(2), pairs, devices=GPUS) == exactly(expected)
