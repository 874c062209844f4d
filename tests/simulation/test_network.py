"""Messages over shared links: closed forms, order within a moment, errors, and what a message costs."""

from __future__ import annotations

import pytest

from fluid_model import Simulation, broken_invariants, random_story
from simdist.errors import DeadlineExceededError, InvalidArgumentError
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Flow, Link, SharedLinks

# -- closed forms -------------------------------------------------------------------------------------------------


def test_eight_senders_of_200_messages_need_16_seconds() -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 100e6)
    outs = [Link(f"out{i}", 1e9) for i in range(8)]
    left = dict.fromkeys(range(8), 200)
    ends: list[float] = []

    def send(sender: int) -> None:
        ends.append(clock.now)
        if left[sender]:
            left[sender] -= 1
            shared.start((outs[sender], port), 1e6, send, sender)

    for sender in range(8):
        send(sender)
    clock.sleep(100.0)
    assert max(ends) == pytest.approx(16.0, rel=1e-13)
    assert (port.bytes_carried, outs[3].bytes_carried) == (1600e6, 200e6)


def test_stopped_flow_never_arrives_and_gives_its_share_back() -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 10.0)
    ends: list[tuple[str, float]] = []
    shared.start((port,), 10.0, lambda name: ends.append((name, clock.now)), "kept")
    dropped = shared.start((port,), 10.0, lambda name: ends.append((name, clock.now)), "dropped")
    clock.after(1.0, shared.stop, dropped)
    clock.after(1.2, shared.stop, dropped)
    clock.sleep(10.0)
    assert ends == [("kept", 1.5)]
    assert (port.bytes_carried, shared.remaining_bytes(dropped)) == (15.0, 5.0)


def test_flow_over_a_cut_link_waits_without_events_until_it_is_mended() -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 10.0)
    ends: list[float] = []
    flow = shared.start((port,), 10.0, lambda _: ends.append(clock.now))
    clock.after(0.5, lambda _: shared.set_bandwidth(port, 0.0))
    clock.sleep(100.0)
    assert (ends, shared.remaining_bytes(flow), len(clock.queue)) == ([], 5.0, 0)
    shared.set_bandwidth(port, 5.0)
    clock.sleep(100.0)
    assert ends == [101.0]


def test_driver_that_waits_for_a_flow_over_a_cut_link_is_told_so() -> None:
    clock = Clock()
    shared, gate = SharedLinks(clock), clock.gate()
    shared.start((Link("in", 0.0),), 10.0, gate.open)
    with pytest.raises(DeadlineExceededError, match="nothing that is still to happen"):
        clock.wait(gate)


@pytest.mark.parametrize("bandwidth", [-1.0, float("nan"), float("inf")])
def test_bandwidth_that_is_none_is_refused(bandwidth: float) -> None:
    with pytest.raises(InvalidArgumentError, match="0 cuts the link"):
        SharedLinks(Clock()).set_bandwidth(Link("in", 1.0), bandwidth)


def test_progress_of_flows_can_be_looked_at_at_any_moment() -> None:
    clock = Clock()
    shared, out, port = SharedLinks(clock), Link("out", 10.0), Link("in", 4.0)
    first, second = shared.start_all([((out, port), 8.0, len, ()), ((out,), 30.0, len, ())])
    clock.sleep(1.0)
    assert (shared.remaining_bytes(first), shared.remaining_bytes(second)) == (4.0, 24.0)
    assert (shared.bytes_carried(out), shared.bytes_carried(port)) == (10.0, 4.0)


# -- order, moments, errors ---------------------------------------------------------------------------------------


def test_flows_that_end_together_end_in_the_order_of_their_start() -> None:
    clock = Clock()
    shared, port, order = SharedLinks(clock), Link("in", 10.0), list[int]()
    outs = [Link(f"out{i}", 10.0) for i in range(20)]
    shared.start_all([((outs[i], port), 5.0, order.append, i) for i in range(10)])
    for i in range(10, 20):
        shared.start((outs[i], port), 5.0, order.append, i)
    clock.sleep(11.0)
    assert order == list(range(20))


def test_same_story_gives_the_same_ends_to_the_last_bit() -> None:
    first, second = (Simulation(random_story(11)).run().ends for _ in range(2))
    assert list(first.items()) == list(second.items())


def test_flow_that_another_one_stops_in_the_moment_of_its_end_does_not_arrive() -> None:
    clock = Clock()
    shared, port, ends = SharedLinks(clock), Link("in", 10.0), list[str]()
    flows: list[Flow] = []

    def first(_: object) -> None:
        ends.append("first")
        shared.stop(flows[1])
        flows.append(shared.start((port,), 0.0, lambda _: ends.append("empty")))

    flows += shared.start_all([((port,), 5.0, first, None), ((port,), 5.0, lambda _: ends.append("second"), None)])
    clock.sleep(10.0)
    assert ends == ["first", "empty"]


def test_error_of_a_receiver_leaves_the_links_in_order() -> None:
    clock = Clock()
    shared, port, ends = SharedLinks(clock), Link("in", 10.0), list[float]()

    def fail(_: object) -> None:
        raise ArithmeticError

    shared.start_all([((port,), 5.0, fail, None), ((port,), 5.0, fail, None), ((port,), 7.0, lambda _: ends.append(clock.now), None)])
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            clock.sleep(10.0)
    assert broken_invariants(shared, [port]) == []
    clock.sleep(10.0)
    assert ends == [1.7]


# -- cost, counted and not timed ----------------------------------------------------------------------------------


def events_of(clock: Clock) -> int:
    return next(clock.sequence)


def test_message_costs_one_event_when_nothing_else_happens_at_its_end() -> None:
    clock = Clock()
    shared, port, left = SharedLinks(clock), Link("in", 1e9), [6_400]
    outs = [Link(f"out{i}", 1e9) for i in range(64)]

    def send(sender: int) -> None:
        if left[0]:
            left[0] -= 1
            shared.start((outs[sender], port), 1e4 + sender, send, sender)

    for sender in range(64):
        send(sender)
    clock.sleep(100.0)
    assert events_of(clock) < 1.02 * 6_400
    assert (shared.refills, shared.moves) == (0, 1)


def test_thousand_flows_of_one_moment_are_settled_once() -> None:
    clock = Clock()
    shared, port, ends = SharedLinks(clock), Link("out", 1e9), list[int]()
    for worker in range(1_000):
        clock.after(1.0, lambda worker: shared.start((port, Link(f"in{worker}", 1e9)), 1e6, ends.append, worker), worker)
    clock.sleep(10.0)
    assert (ends, shared.moves) == (list(range(1_000)), 0)
    assert events_of(clock) < 1_000 + 10


def test_lone_flow_beside_a_busy_server_moves_nothing_there() -> None:
    clock = Clock()
    shared, busy, idle = SharedLinks(clock), Link("ps:0/out", 300.0), Link("ps:1/out", 300.0)
    ins = [Link(f"in{i}", 300.0) for i in range(300)]
    for i in range(300):
        shared.start((busy, ins[i]), 10.0 + i, len, ())
    clock.sleep(1.0)
    before, ends = shared.moves, list[float]()
    shared.start((idle, ins[0]), 598.0, lambda _: ends.append(clock.now))
    clock.sleep(2.5)
    assert ends == [pytest.approx(3.0)]
    assert (shared.moves - before, shared.refills) == (0, 0)


def test_queue_forgets_flows_that_were_stopped() -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 1.0)
    shared.start((port,), 1e9, len, ())
    for _ in range(1_000):
        shared.stop(shared.start((port,), 1e6, len, ()))
    assert len(port.queue) < 100


@pytest.mark.slow
def test_two_hundred_thousand_messages_leave_no_trace_of_rounding() -> None:
    clock = Clock()
    shared, port, left, last = SharedLinks(clock), Link("in", 1e9), [200_000], [0.0]
    outs = [Link(f"out{i}", 1e9) for i in range(64)]

    def send(sender: int) -> None:
        last[0] = clock.now
        if left[0]:
            left[0] -= 1
            shared.start((outs[sender], port), 1e6 + 1_000 * sender, send, sender)

    for sender in range(64):
        send(sender)
    clock.sleep(1e6)
    total = sum(link.bytes_carried for link in outs)
    assert (port.bytes_carried, port.level, port.served, port.guest_rate, len(port.queue)) == (total, 0.0, 0.0, 0.0, 0)
    assert last[0] == pytest.approx(total / 1e9, rel=1e-12)
