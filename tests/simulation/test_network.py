"""Shared links against an independent fluid model that fills all rates again after every event."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from simdist.errors import DeadlineExceededError, InvalidArgumentError
from simdist.simulation import network
from simdist.simulation.balance import Balance
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Flow, Link, SharedLinks

FlowSpec = tuple[list[int], float]  # links, bytes


@dataclass
class Story:
    """What happens when: (moment, what, its arguments). Flows are numbered in the order in which they start."""

    capacities: list[float]
    flows: list[FlowSpec] = field(default_factory=list)
    happenings: list[tuple[float, str, tuple[float, ...]]] = field(default_factory=list)

    def start(self, moment: float, *flows: FlowSpec) -> None:
        numbers = range(len(self.flows), len(self.flows) + len(flows))
        self.flows += flows
        self.happenings.append((moment, "start", tuple(numbers)))

    def stop(self, moment: float, flow: int) -> None:
        self.happenings.append((moment, "stop", (flow,)))

    def bandwidth(self, moment: float, link: int, value: float) -> None:
        self.happenings.append((moment, "bandwidth", (link, value)))


def fair_rates(active: dict[int, float], flows: list[FlowSpec], capacities: list[float]) -> dict[int, float]:
    left, count = list(capacities), [0] * len(capacities)
    for flow in active:
        for link in flows[flow][0]:
            count[link] += 1
    rates: dict[int, float] = {}
    pending = set(active)
    while pending:
        full = min((link for link in range(len(left)) if count[link]), key=lambda link: left[link] / count[link])
        rate = left[full] / count[full]
        for flow in [flow for flow in pending if full in flows[flow][0]]:
            pending.discard(flow)
            rates[flow] = rate
            for link in flows[flow][0]:
                left[link], count[link] = max(0.0, left[link] - rate), count[link] - 1
    return rates


def reference_ends(story: Story) -> tuple[dict[int, float], list[float]]:
    """The end of every flow that ends, and the bytes that every link carried."""
    now, active, ends = 0.0, dict[int, float](), dict[int, float]()
    capacities, carried = list(story.capacities), [0.0] * len(story.capacities)
    waiting = sorted(story.happenings, key=lambda happening: happening[0])
    while True:
        rates = fair_rates(active, story.flows, capacities)
        durations = {flow: active[flow] / rates[flow] for flow in active if rates[flow]}
        first = min(durations, key=lambda flow: durations[flow], default=None)
        first_end = now + durations[first] if first is not None else float("inf")
        if first is None and not waiting:
            return ends, carried
        moment = min(first_end, waiting[0][0]) if waiting else first_end
        for flow in active:
            active[flow] -= rates[flow] * (moment - now)
            for link in story.flows[flow][0]:
                carried[link] += rates[flow] * (moment - now)
        now = moment
        if not waiting or first_end < waiting[0][0]:
            assert first is not None
            del active[first]
            ends[first] = now
            continue
        _, what, arguments = waiting.pop(0)
        if what == "start":
            active |= {int(flow): story.flows[int(flow)][1] for flow in arguments}
        elif what == "stop":
            active.pop(int(arguments[0]), None)
        else:
            capacities[int(arguments[0])] = arguments[1]


class Simulation:
    """A story on shared links."""

    def __init__(self, story: Story, patience: int | None = None, tie_seed: int | None = None) -> None:
        self.story, self.clock = story, Clock(tie_seed)
        self.shared, self.links = SharedLinks(self.clock), [Link(str(i), capacity) for i, capacity in enumerate(story.capacities)]
        if patience is not None:
            self.shared._balance.patience = patience
        self.flows: dict[int, Flow] = {}
        self.ends: dict[int, float] = {}
        self.wrong: list[str] = []
        for moment, what, arguments in story.happenings:
            self.clock.after(moment, getattr(self, what), arguments)

    def start(self, arguments: tuple[int, ...]) -> None:
        specs = [(tuple(self.links[i] for i in route), size) for route, size in (self.story.flows[number] for number in arguments)]
        if len(specs) == 1:
            started = [self.shared.start(*specs[0], self.note, arguments[0])]
        else:
            started = self.shared.start_all([(*spec, self.note, number) for spec, number in zip(specs, arguments, strict=True)])
        self.flows |= dict(zip(arguments, started, strict=True))

    def stop(self, arguments: tuple[int]) -> None:
        self.shared.stop(self.flows[arguments[0]])

    def bandwidth(self, arguments: tuple[int, float]) -> None:
        self.shared.set_bandwidth(self.links[arguments[0]], arguments[1])

    def note(self, number: int) -> None:
        assert number not in self.ends
        self.ends[number] = self.clock.now

    def run(self) -> Simulation:
        self.clock.sleep(100_000.0)
        return self


def random_story(seed: int) -> Story:
    draw = random.Random(seed)
    story = Story([draw.choice([1.0, 2.0, 3.0, 10.0, draw.random() * 5 + 0.1]) for _ in range(draw.randint(2, 9))])
    links = range(len(story.capacities))
    hot = draw.sample(links, draw.randint(0, 2))
    for _ in range(draw.randint(1, 22)):
        group: list[FlowSpec] = []
        shared = draw.choice(links)
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            route = draw.sample(links, draw.randint(1, min(5, len(links))))
            if hot and draw.random() < 0.6:
                route[0] = draw.choice(hot)
            if draw.random() < 0.5:
                route[-1] = shared
            group.append((list(dict.fromkeys(route)), draw.choice([draw.random() * 20 + 0.1, 5.0, 0.01])))
        story.start(draw.choice([draw.random() * 10, float(draw.randint(0, 3))]), *group)
    if seed % 3:
        started = {flow: moment for moment, _, flows in story.happenings for flow in flows}
        for flow in draw.sample(range(len(story.flows)), min(len(story.flows), draw.randint(0, 4))):
            story.stop(started[flow] + draw.random() * 5, flow)
    if seed % 2:
        for _ in range(draw.randint(0, 4)):
            story.bandwidth(draw.random() * 20, draw.choice(links), draw.choice([0.0, draw.random() * 10, 1.0, 5.0]))
    return story


def assert_like_the_fluid_model(simulation: Simulation) -> None:
    ends, carried = reference_ends(simulation.story)
    assert simulation.ends == pytest.approx(ends, rel=1e-9)
    assert [simulation.shared.bytes_carried(link) for link in simulation.links] == pytest.approx(carried, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seeds", [range(first, first + 50) for first in range(0, 700, 50)], ids=str)
def test_random_flows_end_when_the_fluid_model_says(seeds: range) -> None:
    for seed in seeds:
        simulation = Simulation(random_story(seed)).run()
        assert_like_the_fluid_model(simulation)
        assert simulation.shared.refills == 0


def test_random_flows_end_alike_when_every_change_fills_anew() -> None:
    refills = 0
    for seed in range(150):
        simulation = Simulation(random_story(seed), patience=-100_000).run()
        assert_like_the_fluid_model(simulation)
        refills += simulation.shared.refills
    assert refills > 1_000


def test_random_flows_end_alike_whatever_comes_first_in_a_moment() -> None:
    for seed in range(100):
        assert_like_the_fluid_model(Simulation(random_story(seed), tie_seed=seed).run())


def test_random_flows_end_alike_when_queues_often_count_from_zero_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "RESTART_BYTES", 3.0)
    for seed in range(150):
        assert_like_the_fluid_model(Simulation(random_story(seed)).run())


# -- invariants ---------------------------------------------------------------------------------------------------


def broken_invariants(shared: SharedLinks, links: list[Link]) -> list[str]:
    """What the docstrings promise between two settlements, and does not hold."""
    numbers = {link: i for i, link in enumerate(links)}
    flows = {flow.sequence: flow for link in links for flow in link.flows}
    routes = {number: ([numbers[link] for link in flow.links], 0.0) for number, flow in flows.items()}
    by_number = [routes.get(number, ([], 0.0)) for number in range(max(routes, default=0) + 1)]
    rates = fair_rates(dict.fromkeys(routes, 1.0), by_number, [link.bandwidth_bytes_per_s for link in links])
    levels = {number: flow.bottleneck.level if flow.bottleneck else None for number, flow in flows.items()}
    broken = [] if levels == pytest.approx(rates, rel=1e-9) else [f"rates are not fair: {levels} instead of {rates}"]
    for link in links:
        guests = Counter(flow.bottleneck for flow in link.flows if flow.bottleneck is not link)
        own = len(link.flows) - guests.total()
        taken = sum(guest.level * count for guest, count in guests.items() if guest)
        promises = {
            "own flows are counted": link.own == own,
            "own flows need books": link.books or not own,
            "books name all guests": link.guests == (guests if link.books else {}),
            "guests and followers mirror each other": all(guest.followers[link] == n for guest, n in link.guests.items()),
            "what guests take is added up": link.guest_rate == pytest.approx(taken if link.books else 0.0, rel=1e-9, abs=1e-9),
            "no guest is faster than the fastest": all(guest.level <= link.fastest_guest for guest in link.guests),
            "there is room for all": link.books or len(link.flows) <= link.room_for,
            "ceilings hold": link.books or all(guest is None or guest.level <= guest.ceiling <= link.allowance for guest in guests),
            "who limits nobody is at rest": bool(own) or (link.level, link.served, link.queue) == (0.0, 0.0, []),
            "nothing is left to settle": not link.dirty,
        }
        broken += [f"{link}: {promise}" for promise, kept in promises.items() if not kept]
    return broken


def watched(seed: int) -> tuple[Simulation, list[str]]:
    """A random story in which the invariants are looked at after every settlement."""
    simulation, broken = Simulation(random_story(seed)), list[str]()
    settle = simulation.shared._balance.settle

    def settle_and_look(now: float) -> None:
        settle(now)
        broken.extend(broken_invariants(simulation.shared, simulation.links))

    simulation.shared._balance.settle = settle_and_look
    return simulation, broken


def test_invariants_hold_after_every_settlement() -> None:
    for seed in range(120):
        simulation, broken = watched(seed)
        simulation.run()
        assert broken == []


@pytest.mark.parametrize("sabotaged", ["narrow", "_look_around", "_pull", "_set_level", "rest"])
def test_invariants_break_without_one_of_the_rules(sabotaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Balance, sabotaged, lambda *_: None)
    found: list[str] = []
    for seed in range(40):
        simulation, broken = watched(seed)
        try:
            simulation.run()
        except (AssertionError, DeadlineExceededError, LookupError, ZeroDivisionError) as error:
            broken.append(str(error))
        found += broken
        if found:
            return
    pytest.fail(f"Nothing broke without {sabotaged}.")


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
    assert (ends, shared.remaining_bytes(flow), len(clock.env._queue)) == ([], 5.0, 0)
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
    return next(clock.env._eid)


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
def test_million_messages_leave_no_trace_of_rounding() -> None:
    clock = Clock()
    shared, port, left, last = SharedLinks(clock), Link("in", 1e9), [1_000_000], [0.0]
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
