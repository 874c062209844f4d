"""What becomes of single messages over which faults lie: lost, late, twice, or on a slow way."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.collectives import ALGORITHMS
from simdist.faults.messages import kinds_of
from simdist.runtime.simulated.disturbances import AS_EVER, Disturbances, Narrowing
from simdist.runtime.simulated.transfers import RoutedSchedule, Transfers
from simdist.simulation.kernel import Clock
from simdist.simulation.network import SharedLinks
from tests.runtime.simulated.machines import BANDWIDTH, LATENCY_S, world
from tests.runtime.simulated.test_transport import Sender, parcels, send, words

PAIR = ("worker:0", "ps:0")
ALL = kinds_of(None)


def disturbances(seed: int = 0) -> Disturbances:
    return Disturbances(SharedLinks(Clock()), seed=seed)


def fates(there: Disturbances, kind: str = "read", count: int = 1) -> list[tuple[float, ...]]:
    return [there.fates(*PAIR, kind, 1.0) for _ in range(count)]


# -- what is drawn ---------------------------------------------------------------------------------------------------


def test_nothing_befalls_other_pairs_directions_and_kinds() -> None:
    there = disturbances()
    there.drop(PAIR, kinds_of("update"), 1.0)
    assert fates(there, "update") == [()]
    assert fates(there, "read") == [AS_EVER]
    assert there.fates("ps:0", "worker:0", "update", 1.0) is AS_EVER
    assert there.fates("worker:1", "ps:0", "update", 1.0) is AS_EVER


def test_a_part_of_an_infinite_bandwidth_is_infinite() -> None:
    there = Disturbances(SharedLinks(Clock()), lambda source, target: float("inf"))
    heal = there.slow(PAIR, Narrowing(10.0, 3.0))
    assert not there.narrow
    assert fates(there) == [(2.0,)]
    heal()
    assert not there.pairs


def test_a_share_of_the_messages_is_lost_and_the_same_ones_each_time() -> None:
    def lost(seed: int) -> list[bool]:
        there = disturbances(seed)
        there.drop(PAIR, ALL, 0.3)
        return [not fate for fate in fates(there, count=2000)]

    assert sum(lost(0)) == pytest.approx(600, abs=80)  # four standard deviations
    assert lost(0) == lost(0) != lost(1)


def test_one_rule_shifts_no_draw_of_another() -> None:
    def lost(with_others: bool) -> list[bool]:
        there = disturbances()
        if with_others:
            there.delay(PAIR, kinds_of("read"), 0.5, 1.0, 1.0)
            there.drop(PAIR, kinds_of("update"), 0.5)
        there.drop(PAIR, kinds_of("read"), 0.5)
        return [not fate for kind in ("read", "update") for fate in fates(there, kind, 50)][:50]

    assert lost(True) == lost(False)


def test_two_equal_losses_are_drawn_apart() -> None:
    there = disturbances()
    for _ in range(2):
        there.drop(PAIR, ALL, 0.5)
    gone = sum(not fate for fate in fates(there, count=2000))
    assert gone == pytest.approx(1500, abs=80)


def test_delays_add_up_factors_multiply_and_copies_add_up() -> None:
    there = disturbances()
    there.delay(PAIR, ALL, 1.0, 2.0, 0.0)
    heal = there.delay(PAIR, ALL, 1.0, 3.0, 0.0)
    for factor in (2.0, 5.0):
        there.slow(PAIR, Narrowing(1.0, factor))
    assert fates(there) == [(14.0,)]  # 2 + 3, and nine latencies more
    for _ in range(2):
        there.duplicate(PAIR, ALL, 1.0)
    assert fates(there) == [(14.0,) * 3]
    heal()
    assert fates(there) == [(11.0,) * 3]


def test_a_spread_is_drawn_for_each_message_within_its_bounds() -> None:
    there = disturbances()
    there.delay(PAIR, ALL, 1.0, 2.0, 0.5)
    late = [fate[0] for fate in fates(there, count=200)]
    assert 2.0 <= min(late) < 2.05 < 2.45 < max(late) < 2.5
    assert len(set(late)) == 200


def test_a_pair_that_is_healed_is_asked_no_more() -> None:
    there = disturbances()
    heals = [there.drop(PAIR, ALL, 1.0), there.duplicate(PAIR, ALL, 1.0), there.slow(PAIR, Narrowing(2.0, 2.0))]
    for heal in heals:
        assert PAIR in there.pairs
        heal()
    assert there.pairs == {}


# -- what becomes of messages ------------------------------------------------------------------------------------------


@pytest.fixture
def there() -> Any:
    return world()


@pytest.fixture
def sender() -> Sender:
    return Sender()


def test_who_sends_is_told_of_what_is_lost_and_of_what_comes_twice(there: Any, sender: Sender) -> None:
    legs = words(there, "ps:0", "ps:1", "chief:0")
    there.disturbances.drop(PAIR, ALL, 1.0)
    there.disturbances.duplicate(("worker:0", "ps:1"), ALL, 1.0)
    send(there, sender, legs)
    there.clock.sleep(5.0)
    assert (sender.lost, sender.twice) == ([legs[0]], [legs[1]])
    assert sender.came == [(LATENCY_S, (legs[1],))] * 2 + [(LATENCY_S, (legs[2],))]


def test_bytes_that_are_late_set_out_late_and_a_cut_on_the_way_loses_them(there: Any, sender: Sender) -> None:
    there.disturbances.delay(PAIR, ALL, 1.0, 2.0, 0.0)
    send(there, sender, parcels(there, 1000.0, "ps:0"))
    there.clock.sleep(10.0)
    assert [time_s for time_s, _ in sender.came] == [pytest.approx(LATENCY_S + 2.0 + 1000.0 / BANDWIDTH)]
    legs = parcels(there, 1000.0, "ps:0")
    send(there, sender, legs)
    there.clock.sleep(1.5)  # longer than its latency
    there.silence.cut(there.tasks["worker:0"], there.tasks["ps:0"])()
    there.clock.sleep(10.0)
    assert (len(sender.came), sender.lost) == (1, legs)


def test_a_slow_way_carries_a_share_of_its_bytes_also_of_those_under_way_and_is_wide_again(there: Any) -> None:
    worker, server = there.tasks["worker:0"], there.tasks["ps:0"]
    errors: list[Any] = []
    there.copy("worker:0", "ps:0", 3000.0, "it", lambda error: errors.append((there.now, error)))
    there.clock.sleep(LATENCY_S + 1.0)  # a third has come
    heal = there.disturbances.slow(PAIR, Narrowing(10.0, 1.0))
    there.transport.narrow(worker, server)
    there.clock.sleep(10.0)  # another third
    heal()
    there.clock.sleep(5.0)
    assert errors == [(pytest.approx(LATENCY_S + 1.0 + 10.0 + 1.0), None)]
    assert there.fabric.link("worker:0/out").bytes_carried == pytest.approx(3000.0)


def test_other_pairs_of_the_same_port_do_not_pass_the_slow_way(there: Any, sender: Sender) -> None:
    there.disturbances.slow(PAIR, Narrowing(100.0, 1.0))
    legs = parcels(there, 990.0, "ps:0", "ps:1")
    send(there, sender, legs)
    there.clock.sleep(200.0)
    # 10 bytes a second go to the one, and the rest of the port's thousand to the other.
    assert sender.came == [(pytest.approx(LATENCY_S + 1.0), legs[1]), (pytest.approx(LATENCY_S + 99.0), legs[0])]


@pytest.mark.parametrize("order", ["copies", "late"])
def test_a_letter_that_comes_twice_is_read_once(order: str, there: Any) -> None:
    there.disturbances.duplicate(PAIR, ALL, 1.0)
    if order == "late":
        there.disturbances.delay(PAIR, ALL, 1.0, 0.0, 3.0)
    read: list[Any] = []
    there.routes.post(there.tasks["worker:0"], there.tasks["ps:0"], "notice", read.append, "it")
    there.clock.sleep(10.0)
    assert read == ["it"]


def test_a_letter_is_lost_when_the_last_of_its_copies_is(there: Any) -> None:
    read: list[Any] = []
    lost: list[Any] = []
    there.disturbances.duplicate(PAIR, ALL, 1.0)
    there.routes.post(there.tasks["worker:0"], there.tasks["ps:0"], "notice", read.append, "it", lost.append)
    there.silence.cut(there.tasks["worker:0"], there.tasks["ps:0"])
    there.clock.sleep(10.0)
    assert (read, lost) == ([], ["it"])


def test_a_collective_whose_transfers_come_twice_ends_when_each_has_come_once() -> None:
    there = world()
    tasks = [there.tasks[name] for name in ("worker:0", "worker:1", "ps:0", "ps:1")]
    schedule = ALGORITHMS["all_reduce"]["ring"].schedule(4)
    routed = RoutedSchedule(schedule, lambda a, b: there.routes.between(tasks[a].name, tasks[b].name), 4000.0, tasks)
    pairs = {(a.name, b.name) for a in tasks for b in tasks if a is not b}
    for pair in pairs:
        there.disturbances.duplicate(pair, ALL, 1.0)
    ends: list[tuple[int, float]] = []
    transfers = Transfers(there.transport, routed, lambda rank: ends.append((rank, there.now)))
    for rank in range(4):
        transfers.begin(rank)
    there.clock.sleep(100.0)
    assert sorted(rank for rank, _ in ends) == [0, 1, 2, 3]
    # Both copies share the port, so each of the six steps takes two chunks of a thousand bytes.
    assert [time_s for _, time_s in ends] == pytest.approx([6 * (LATENCY_S + 2 * 1000.0 / BANDWIDTH)] * 4)
