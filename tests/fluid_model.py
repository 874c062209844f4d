"""A fluid model of shared links that fills all rates again after every event: independent of the engine's, and slow.

A *story* says what happens to some links and flows; the model and the engine both tell when its flows end.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

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


def broken_invariants(shared: SharedLinks, links: list[Link]) -> list[str]:
    """What the docstrings promise between two settlements, and does not hold."""
    numbers = {link: i for i, link in enumerate(links)}
    flows = dict(enumerate(sorted({flow for link in links for flow in link.flows})))
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
            "own flows are counted": link.num_own == own,
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
