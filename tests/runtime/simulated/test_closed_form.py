"""Calls whose bytes are in closed form against the same calls over ordinary flows, whatever happens on their way; and legs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from sampling import sampled
from simdist.chaos import Scenario, run
from simdist.chaos.drawing import calm, disturbed
from simdist.collectives import ALGORITHMS
from simdist.faults.messages import kinds_of
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.copies import Copy
from simdist.runtime.simulated.disturbances import Narrowing
from simdist.runtime.simulated.legs import Legs
from simdist.runtime.simulated.pushing import Pushing
from simdist.runtime.simulated.reading import Reading
from simdist.runtime.simulated.transfers import RoutedSchedule, Transfers
from simdist.simulation.network import Flow, QuietFlows, SharedLinks
from tests.runtime.simulated.machines import BANDWIDTH, LATENCY_S, Client, Server, part, plan, world

UPDATE: Any = object()
ALL = kinds_of(None)
SIZES = {"ps:0": 1000.0, "ps:1": 2000.0, "chief:0": 2000.0}
# A read asks for half a second, its bytes leave after another, and come after 3, 5 and 5 s on the way; a push is half a second earlier.
MOMENTS = [0.25, 0.5, 0.75, 1.0, 1.3, 2.7182, 3.5, 4.0, 4.5, 5.0, 5.9, 6.0, 6.2]


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches closed forms off, or on again."""
    start_course = SharedLinks.start_course

    def switch(off: bool) -> None:
        monkeypatch.setattr(SharedLinks, "start_course", (lambda *_: None) if off else start_course)

    return switch


class Scene:
    """worker:0 calls three servers at once."""

    def __init__(self, kind: str) -> None:
        self.world = there = world()
        self.client, self.worker = Client(there), there.tasks["worker:0"]
        servers = {name: Server(there) for name in SIZES}
        update = UPDATE if kind == "push" else None
        parts = []
        for group, (name, server) in enumerate(servers.items()):
            server.has[group] = (name, group)
            parts.append(part(there, name, server, SIZES[name], () if update else ((group, group),), update, group))
        self.call: Reading | Pushing
        if kind == "read":
            self.call = Reading(there.transport, self.worker, plan(*parts), self.client, (0, 1, 2))
        else:
            self.call = Pushing(there.transport, self.worker, plan(*parts), self.client, ["a", "b", "c"], None, {})  # type: ignore[arg-type]
        self.servers = servers

    def outcome(self) -> list[Any]:
        """All that can be seen of it."""
        there = self.world
        there.clock.sleep(2 * CALL_TIMEOUT_S)
        received = [(moment, part.position) for server in self.servers.values() for moment, _, part in server.received]
        return [
            [(moment, repr(error)) for moment, error in self.client.ended],
            received,
            there.trace.digest(),
            there.trace.totals,
            [link.bytes_carried for link in there.fabric.links()],
            [len(task.calls) for task in there.tasks.values()],
        ]


def crash(scene: Scene, name: str, restart_after_s: float | None) -> None:
    scene.world.crash(scene.world.tasks[name], restart_after_s)


def pause(scene: Scene, name: str) -> None:
    heal = scene.world.silence.pause(scene.world.tasks[name])
    scene.world.clock.after(2.0, lambda _: heal())


def cut(scene: Scene, source: str, target: str, healed_after_s: float) -> None:
    heal = scene.world.silence.cut(scene.world.tasks[source], scene.world.tasks[target])
    scene.world.clock.after(healed_after_s, lambda _: heal())


def narrow(scene: Scene, source: str, target: str) -> None:
    tasks = scene.world.tasks
    heal = scene.world.disturbances.slow((source, target), Narrowing(3.0, 2.0))
    scene.world.transport.narrow(tasks[source], tasks[target])
    scene.world.clock.after(1.7, lambda _: heal())


def bandwidth(scene: Scene, link: str, bandwidth: float) -> None:
    shared, port = scene.world.links, scene.world.fabric.link(link)
    shared.set_bandwidth(port, bandwidth)
    scene.world.clock.after(3.0, lambda _: shared.set_bandwidth(port, 0.9 * BANDWIDTH))


def copy(scene: Scene, source: str, target: str) -> None:
    scene.world.copy(source, target, 1234.5, "it", lambda error: scene.client.ended.append((scene.world.now, error)))


def twice(scene: Scene, source: str, target: str) -> None:
    scene.world.disturbances.duplicate((source, target), ALL, 1.0)


HAPPENINGS: list[tuple[Any, ...]] = [
    (crash, "ps:0", None),
    (crash, "ps:1", 0.1),
    (crash, "worker:0", 1.0),
    (lambda scene: scene.world.lose_host(scene.world.tasks["ps:0"]),),
    (pause, "ps:0"),
    (pause, "worker:0"),
    (cut, "ps:0", "worker:0", 0.0),
    (cut, "worker:0", "ps:1", 2.0),
    (narrow, "ps:1", "worker:0"),
    (narrow, "worker:0", "ps:0"),
    (bandwidth, "worker:0/in", 0.0),
    (bandwidth, "worker:0/out", 300.0),
    (bandwidth, "ps:1/out", 2000.0),
    (copy, "ps:0", "worker:0"),
    (copy, "worker:0", "ps:1"),
    (copy, "worker:1", "worker:0"),
    (twice, "worker:0", "ps:0"),
    (twice, "ps:1", "worker:0"),
    (lambda scene: scene.call.drop(),),
]


@pytest.mark.parametrize("kind", ["read", "push"])
@pytest.mark.parametrize(
    "happening", HAPPENINGS, ids=lambda happening: "-".join(str(getattr(word, "__name__", word)) for word in happening)
)
@pytest.mark.sample
def test_a_call_goes_as_over_ordinary_flows_whatever_happens_on_its_way(
    kind: str, happening: tuple[Any, ...], ordinary: Callable[[bool], None]
) -> None:
    for moment_s in MOMENTS:
        outcomes: list[Any] = []
        for off in (False, True):
            ordinary(off)
            scene = Scene(kind)
            scene.world.clock.after(moment_s, lambda _, scene=scene: happening[0](scene, *happening[1:]))
            outcomes.append(scene.outcome())
            assert [link for link in scene.world.fabric.links() if link.quiet is not None or link.flows] == []
        assert outcomes[0] == outcomes[1], moment_s


def test_the_crash_of_a_server_whose_bytes_have_come_does_not_matter_although_nobody_was_told_of_them() -> None:
    for crash_s, is_lost in ((3.9, True), (4.1, False)):  # its bytes come after four seconds, the last ones after six
        scene = Scene("read")
        scene.world.clock.sleep(crash_s)
        assert all(link.quiet is not None for flow in scene.call.flows if not isinstance(flow, Flow) for link in flow.course.links)
        crash(scene, "ps:0", None)
        scene.world.clock.sleep(10.0)
        (ended,) = scene.client.ended
        assert (ended[1] is not None) is is_lost


@pytest.mark.parametrize("number", range(5, 13))
def test_drawn_runs_have_the_same_trace_with_closed_forms_and_without(number: int, ordinary: Callable[[bool], None]) -> None:
    scenario = calm(5, number, timing_only=1.0)
    scenarios: list[Scenario] = [scenario]
    for off in (False, True):
        ordinary(off)
        if not off:
            scenarios.append(disturbed(scenario, run(scenario).ground(), 5, number))
        digests = [run(each).cluster.trace.digest() for each in scenarios]
        if not off:
            quiet = digests
    assert quiet == digests


# -- legs ----------------------------------------------------------------------------------------------------------------


def legs_of(there: Any, *sizes: tuple[str, float]) -> Legs:
    return Legs([there.routes.leg(there.tasks["worker:0"], there.tasks[name], "update", size) for name, size in sizes])


def test_legs_know_what_travels_what_is_here_and_what_they_count() -> None:
    there = world()
    legs = legs_of(there, ("ps:0", 10.0), ("ps:1", 0.0), ("chief:0", 30.0))
    first, second, third = legs.all
    assert (legs.travelling, legs.here) == ((first, third), (second,))
    assert legs.counted == [(("worker:0", "bytes_sent"), 10.0), (("worker:0", "bytes_sent"), 0.0), (("worker:0", "bytes_sent"), 30.0)]
    assert (legs.latency_s, legs.is_word) == (LATENCY_S, False)


def test_words_count_nothing_and_have_no_bytes_on_their_way() -> None:
    there = world()
    words = Legs([there.routes.word(there.tasks["worker:0"], there.tasks["ps:0"], "read")])
    assert (words.is_word, words.counted, words.travelling, words.here) == (True, [], (), ())


def test_a_sized_leg_differs_in_its_bytes_alone() -> None:
    there = world()
    leg = there.routes.leg(there.tasks["worker:0"], there.tasks["ps:0"], "update", 0, "content")
    sized = leg.sized(30)
    assert (leg.size_bytes, leg.travels, sized.size_bytes, sized.travels) == (0, False, 30, True)
    same = ("source", "target", "links", "latency_s", "counted", "content", "is_word", "kind")
    assert all(getattr(leg, name) is getattr(sized, name) for name in same)


def test_legs_that_are_all_kept_stay_what_they_are() -> None:
    legs = legs_of(world(), ("ps:0", 10.0), ("ps:1", 20.0))
    assert legs.only(lambda _: True) is legs
    assert legs.only(lambda _: False) is None
    kept = legs.only(lambda leg: leg.size_bytes > 10.0)
    assert kept is not None and kept.all == legs.all[1:]


def test_a_course_is_computed_anew_only_when_a_bandwidth_has_changed() -> None:
    there = world()
    legs = legs_of(there, ("ps:0", 10.0), ("ps:1", 20.0))
    course = legs.course(there.links)
    assert legs.course(there.links) is course
    there.links.set_bandwidth(there.fabric.link("worker:0/out"), BANDWIDTH / 2)
    changed = legs.course(there.links)
    assert [seconds * 2 for seconds in course.seconds] == changed.seconds


# -- what is left --------------------------------------------------------------------------------------------------------


def a_copy(there: Any, ended: Callable[..., None]) -> Copy:
    tasks = there.tasks["ps:0"], there.tasks["worker:0"]
    route = there.routes.between("ps:0", "worker:0")
    return Copy(there.transport, route, tasks, ("ps:0", "worker:0"), 1000.0, "it", ended)


def some_transfers(there: Any) -> Transfers:
    tasks = [there.tasks[name] for name in ("worker:0", "worker:1", "ps:0")]
    schedule = ALGORITHMS["all_reduce"]["ring"].schedule(3)
    routed = RoutedSchedule(schedule, lambda a, b: there.routes.between(tasks[a].name, tasks[b].name), 3000.0, tasks)
    transfers = Transfers(there.transport, routed, lambda _: None)
    for rank in range(3):
        transfers.begin(rank)
    return transfers


FREED = list(product(("read", "push", "copy", "transfers"), ("ends", "is dropped", "somebody comes")))


@pytest.mark.parametrize(("what", "how"), sampled(FREED, FREED[::4]))
def test_what_has_sent_bytes_is_freed_without_the_collector(what: str, how: str) -> None:
    scene = Scene(what if what == "push" else "read")
    there, freed = scene.world, list[str]()
    sent: Any = scene.call
    if what == "copy":
        sent = a_copy(there, lambda _: None)
    elif what == "transfers":
        sent = some_transfers(there)
    if sent is not scene.call:
        scene.call.drop()
    del scene.call
    # What it carries is freed with it; calls have no place for a weak reference.
    sent.flows.append(Witness(freed))
    gc.collect()
    gc.disable()
    try:
        there.clock.sleep(1.2)
        if how != "ends":
            assert any(link.quiet is not None for link in there.fabric.links())
        if how == "is dropped":
            sent.stop() if isinstance(sent, Transfers) else sent.drop()
        elif how == "somebody comes":
            for link in there.fabric.links():
                there.links.start((link,), 10.0, len, ())
        there.clock.sleep(20.0)
        if isinstance(sent, Pushing):
            sent.close()  # these servers never confirm
        for server in scene.servers.values():
            server.received.clear()
        del sent
        assert freed == ["freed"]
    finally:
        gc.enable()


class Witness(QuietFlows):
    """Tells when it is freed; for everybody else it is over."""

    __slots__ = ("freed",)

    def __init__(self, freed: list[str]) -> None:
        self.freed = freed
        self.is_quiet = False
        self.flows = []

    def __del__(self) -> None:
        self.freed.append("freed")
