"""Shared links against an independent fluid model that fills all rates again after every event."""

from __future__ import annotations

import random

import pytest

from simdist.simulation.kernel import Clock
from simdist.simulation.network import Link, SharedLinks

FlowSpec = tuple[float, list[int], float]  # start, links, bytes


def fair_rates(active: dict[int, float], flows: list[FlowSpec], capacities: list[float]) -> dict[int, float]:
    left, count = list(capacities), [0] * len(capacities)
    for flow in active:
        for link in flows[flow][1]:
            count[link] += 1
    rates: dict[int, float] = {}
    pending = set(active)
    while pending:
        full = min((link for link in range(len(left)) if count[link]), key=lambda link: left[link] / count[link])
        rate = left[full] / count[full]
        for flow in [flow for flow in pending if full in flows[flow][1]]:
            pending.discard(flow)
            rates[flow] = rate
            for link in flows[flow][1]:
                left[link], count[link] = max(0.0, left[link] - rate), count[link] - 1
    return rates


def reference_ends(flows: list[FlowSpec], capacities: list[float]) -> dict[int, float]:
    now, active, ends = 0.0, dict[int, float](), dict[int, float]()
    waiting = sorted(range(len(flows)), key=lambda flow: (flows[flow][0], flow))
    while waiting or active:
        rates = fair_rates(active, flows, capacities)
        first_end = min((now + active[flow] / rates[flow] for flow in active), default=float("inf"))
        moment = min(first_end, flows[waiting[0]][0]) if waiting else first_end
        done = min(active, key=lambda flow: active[flow] / rates[flow], default=None)
        for flow in active:
            active[flow] -= rates[flow] * (moment - now)
        now = moment
        if waiting and flows[waiting[0]][0] <= first_end:
            active[waiting[0]] = flows[waiting[0]][2]
            waiting.pop(0)
        else:
            assert done is not None
            del active[done]
            ends[done] = now
    return ends


def simulated_ends(flows: list[FlowSpec], capacities: list[float]) -> dict[int, float]:
    clock = Clock()
    shared, links = SharedLinks(clock), [Link(str(i), capacity) for i, capacity in enumerate(capacities)]
    ends: dict[int, float] = {}
    for number, (start, route, size) in enumerate(flows):

        def begin(_: object, number: int = number, route: list[int] = route, size: float = size) -> None:
            shared.start([links[link] for link in route], size, lambda: ends.__setitem__(number, clock.now))

        clock.call_later(start, begin)
    clock.sleep(10_000.0)
    return ends


@pytest.mark.parametrize("seed", range(150))
def test_random_flows_end_when_the_fluid_model_says(seed: int) -> None:
    draw = random.Random(seed)
    capacities = [draw.choice([1.0, 2.0, 3.0, 10.0]) for _ in range(draw.randint(2, 8))]
    flows = [
        (
            draw.choice([draw.random() * 10, float(draw.randint(0, 3))]),
            draw.sample(range(len(capacities)), draw.randint(1, min(3, len(capacities)))),
            draw.choice([draw.random() * 20 + 0.1, 5.0]),
        )
        for _ in range(draw.randint(1, 25))
    ]
    assert simulated_ends(flows, capacities) == pytest.approx(reference_ends(flows, capacities), rel=1e-9)


def test_eight_senders_of_200_messages_need_16_seconds() -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 100e6)
    outs = [Link(f"out{i}", 1e9) for i in range(8)]
    left = dict.fromkeys(range(8), 200)

    def send(sender: int) -> None:
        left[sender] -= 1
        shared.start([outs[sender], port], 1e6, lambda: send(sender) if left[sender] else None)

    for sender in range(8):
        send(sender)
    clock.sleep(15.999)
    assert any(link.flows for link in outs)
    clock.sleep(0.002)
    assert not any(link.flows for link in outs)


def test_stopped_flow_never_arrives_and_gives_its_share_back() -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 10.0)
    ends: list[tuple[str, float]] = []
    shared.start([port], 10.0, lambda: ends.append(("kept", clock.now)))
    dropped = shared.start([port], 10.0, lambda: ends.append(("dropped", clock.now)))
    clock.call_later(1.0, lambda _: shared.stop(dropped))
    clock.sleep(10.0)
    assert ends == [("kept", 1.5)]
