"""Calls to several servers: they end once, when the last part has come, or with an error when none can."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.errors import UnavailableError
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S, CallPlan
from simdist.runtime.simulated.pushing import Pushing
from simdist.runtime.simulated.reading import Reading
from tests.runtime.simulated.machines import BANDWIDTH, LATENCY_S, Client, Server, part, plan, world

BYTES = 1000.0
FLIGHT_S = BYTES / BANDWIDTH
UPDATE: Any = object()  # what is applied; a stand-in for a server looks at nothing of it


class Scene:
    """worker:0 and two servers, which have versions 7 and 8 of groups 0 and 1."""

    def __init__(self) -> None:
        self.world = world()
        self.servers = {name: Server(self.world) for name in ("ps:0", "ps:1")}
        self.servers["ps:0"].has[0], self.servers["ps:1"].has[1] = ("zero", 7), ("one", 8)
        self.client = Client(self.world)
        self.task = self.world.tasks["worker:0"]

    def read(self, *names: str) -> Reading:
        groups = {"ps:0": 0, "ps:1": 1}
        parts = [part(self.world, name, self.servers[name], BYTES, ((groups[name], device),)) for device, name in enumerate(names)]
        return Reading(self.world.transport, self.task, plan(*parts), self.client, tuple(groups[name] for name in names))

    def push(self, *names: str) -> Pushing:
        parts = [part(self.world, name, self.servers[name], BYTES, update=UPDATE, device=device) for device, name in enumerate(names)]
        operands: Any = [f"operand {device}" for device in range(len(names))]
        return Pushing(self.world.transport, self.task, plan(*parts), self.client, operands, None, {})  # type: ignore[arg-type]

    def at(self, second: float, function: Any, *args: Any) -> None:
        self.world.clock.after(second, lambda _: function(*args))

    def crash(self, second: float, name: str, restart_after_s: float | None = None) -> None:
        self.at(second, self.world.crash, self.world.tasks[name], restart_after_s)

    def go(self, seconds: float = 5.0) -> None:
        self.world.clock.sleep(seconds)

    @property
    def is_clean(self) -> bool:
        """Whether nothing remembers a call, and nothing is on its way."""
        return not any(task.calls for task in self.world.tasks.values()) and not any(
            link.flows or link.quiet for link in self.world.fabric.links()
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


# -- reading -------------------------------------------------------------------------------------------------------------


def test_a_read_gets_the_versions_that_the_server_has_when_it_is_asked(scene: Scene) -> None:
    call = scene.read("ps:0")
    scene.at(LATENCY_S / 2, scene.servers["ps:0"].has.__setitem__, 0, ("newer", 9))
    scene.at(LATENCY_S * 1.5, scene.servers["ps:0"].has.__setitem__, 0, ("too new", 10))
    scene.go()
    assert (call.found, call.versions) == (["newer"], [9])
    assert scene.servers["ps:0"].asked_s == [LATENCY_S]
    assert scene.client.ended == [(pytest.approx(2 * LATENCY_S + FLIGHT_S), None)]
    assert scene.is_clean


def test_a_read_ends_once_when_its_last_part_has_come(scene: Scene) -> None:
    call = scene.read("ps:1", "ps:0")
    scene.go()
    assert (call.found, call.versions) == (["one", "zero"], [8, 7])
    assert scene.client.ended == [(pytest.approx(2 * LATENCY_S + 2 * FLIGHT_S), None)]  # they share the client's port


def test_an_error_of_a_server_ends_a_read_one_latency_later(scene: Scene) -> None:
    error = scene.servers["ps:1"].error = UnavailableError("lost")
    scene.read("ps:0", "ps:1")
    scene.go()
    assert scene.client.ended == [(2 * LATENCY_S, error)]
    assert scene.is_clean


def test_a_server_that_has_lost_one_of_the_groups_sends_an_error_and_no_bytes(scene: Scene) -> None:
    """Also where it is asked twice, and its words are late."""
    server = scene.servers["ps:0"]
    error, server.has[2] = UnavailableError("lost"), (None, 0)
    server.error = error
    scene.world.disturbances.duplicate(("worker:0", "ps:0"), frozenset({"read"}), 1.0)
    scene.world.disturbances.delay(("ps:0", "worker:0"), frozenset({"read_reply"}), 1.0, 0.0, 10.0)
    for _ in range(8):
        asked = plan(part(scene.world, "ps:0", server, BYTES, ((0, 0), (2, 1))))
        Reading(scene.world.transport, scene.task, asked, scene.client, (0, 2), count=2)
    scene.go(30.0)
    assert [ended for _, ended in scene.client.ended] == [error] * 8


def test_a_read_that_is_repeated_asks_all_servers_anew(scene: Scene) -> None:
    asked = part(scene.world, "ps:0", scene.servers["ps:0"], BYTES, ((0, 0),))
    call = Reading(scene.world.transport, scene.task, CallPlan([asked], 2, 1), scene.client, (0, 5))
    call.found[1], call.versions[1] = "own", 3  # type: ignore[call-overload]
    scene.go()
    scene.servers["ps:0"].has[0] = ("newer", 9)
    scene.world.disturbances.duplicate(("worker:0", "ps:0"), frozenset({"read"}), 1.0)
    again = call.repeat()
    scene.go()
    assert (again.found, again.versions) == (["newer", "own"], [9, 3])


@pytest.mark.parametrize(
    ("crash_s", "end_s"),
    [
        (LATENCY_S / 2, 1.5 * LATENCY_S),  # before it was asked
        (LATENCY_S * 1.5, 2.5 * LATENCY_S),  # asked, the answer has not begun
        (LATENCY_S * 2 + FLIGHT_S / 2, 3 * LATENCY_S + FLIGHT_S / 2),  # its bytes are on their way
    ],
)
@pytest.mark.parametrize("restart_after_s", [None, 0.0])
def test_a_server_that_dies_between_request_and_answer_resets_the_read(
    crash_s: float, end_s: float, restart_after_s: float | None, scene: Scene
) -> None:
    scene.read("ps:0")
    scene.crash(crash_s, "ps:0", restart_after_s)
    scene.go()
    ((ended_s, error),) = scene.client.ended
    assert ended_s == pytest.approx(end_s)
    assert isinstance(error, UnavailableError) and "ps:0 is down" in str(error)
    assert scene.world.trace.totals.get(("ps:0", "bytes_sent"), 0) == (BYTES if crash_s > 2 * LATENCY_S else 0)
    assert scene.is_clean


def test_a_server_that_dies_after_its_answer_has_come_does_not_matter(scene: Scene) -> None:
    scene.read("ps:0")
    scene.crash(2 * LATENCY_S + FLIGHT_S + 0.001, "ps:0")
    scene.go()
    assert [error for _, error in scene.client.ended] == [None]


def test_a_call_to_a_server_that_is_down_is_refused(scene: Scene) -> None:
    scene.crash(0.0, "ps:0")
    scene.go(1.0)
    scene.read("ps:0")
    scene.go()
    ((ended_s, error),) = scene.client.ended
    assert (ended_s, type(error)) == (1.0 + 2 * LATENCY_S, UnavailableError)


@pytest.mark.parametrize("kind", ["read", "push"])
@pytest.mark.parametrize("crash_s", [LATENCY_S / 2, LATENCY_S + FLIGHT_S / 2])
def test_a_client_that_dies_is_told_nothing_and_leaves_nothing(kind: str, crash_s: float, scene: Scene) -> None:
    getattr(scene, kind)("ps:0", "ps:1")
    scene.crash(crash_s, "worker:0", 0.0)
    scene.go()
    assert scene.client.ended == []
    assert not any(server.received for server in scene.servers.values())
    assert scene.is_clean


@pytest.mark.parametrize("kind", ["read", "push"])
@pytest.mark.parametrize("lost", [("worker:0", "ps:1"), ("ps:1", "worker:0")])
def test_a_call_whose_message_is_lost_ends_by_its_time_out(kind: str, lost: tuple[str, str], scene: Scene) -> None:
    scene.world.transport.blocked.add(lost)
    call = getattr(scene, kind)("ps:0", "ps:1")
    if kind == "push":
        scene.at(3.0, lambda: [call.confirm(part, 3.0) for server in scene.servers.values() for _, _, part in server.received])
    scene.go(CALL_TIMEOUT_S + 10)
    ((ended_s, error),) = scene.client.ended
    assert ended_s == CALL_TIMEOUT_S
    assert isinstance(error, UnavailableError) and "ps:1 did not answer worker:0" in str(error)
    assert scene.is_clean


# -- pushing -------------------------------------------------------------------------------------------------------------


def test_a_push_ends_one_latency_after_the_last_server_has_confirmed(scene: Scene) -> None:
    call = scene.push("ps:0", "ps:1")
    scene.go(3.0)
    arrived = pytest.approx(LATENCY_S + 2 * FLIGHT_S)
    received = [(when, push, part.position) for server in scene.servers.values() for when, push, part in server.received]
    assert received == [(arrived, call, 0), (arrived, call, 1)]
    first, second = (server.received[0][2] for server in scene.servers.values())
    call.confirm(second, scene.world.now)
    scene.go(2.0)
    assert scene.client.ended == []
    call.confirm(first, scene.world.now)
    scene.go(2.0)
    assert scene.client.ended == [(5.0 + LATENCY_S, None)]
    assert scene.is_clean


def test_a_part_that_is_confirmed_twice_does_not_stand_for_another(scene: Scene) -> None:
    call = scene.push("ps:0", "ps:1")
    scene.go(3.0)
    for _ in range(3):
        call.confirm(scene.servers["ps:0"].received[0][2], scene.world.now)
    scene.go(2.0)
    assert scene.client.ended == []
    call.confirm(scene.servers["ps:1"].received[0][2], scene.world.now)
    scene.go(2.0)
    assert scene.client.ended == [(5.0 + LATENCY_S, None)]


def test_a_copy_that_leaves_after_the_confirmation_does_not_stand_for_another_part(scene: Scene) -> None:
    over, updates = (("worker:0", "ps:0"), frozenset({"update"})), scene.servers["ps:0"].received
    scene.world.disturbances.duplicate(*over, 1.0)
    scene.world.disturbances.delay(*over, 1.0, 0.0, 60.0)
    call = scene.push("ps:0", "ps:1")
    for come in (1, 2):
        while len(updates) < come:
            scene.go(1.0)
        call.confirm(updates[-1][2], scene.world.now)
        scene.go(1.0)
        assert scene.client.ended == []
    call.confirm(scene.servers["ps:1"].received[0][2], scene.world.now)
    scene.go(LATENCY_S)
    assert [error for _, error in scene.client.ended] == [None]
    assert updates[1][0] - updates[0][0] > 10.0


def test_a_confirmation_that_is_lost_may_come_again(scene: Scene) -> None:
    call = scene.push("ps:0")
    scene.go(3.0)
    (_, _, sent) = scene.servers["ps:0"].received[0]
    scene.world.transport.blocked.add(("ps:0", "worker:0"))
    call.confirm(sent, scene.world.now)
    scene.world.transport.blocked.clear()
    call.confirm(sent, scene.world.now)
    scene.go(CALL_TIMEOUT_S)
    assert scene.client.ended == [(3.0 + LATENCY_S, None)]


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_server_that_dies_after_it_has_received_ends_the_push_unless_it_has_confirmed(confirmed: bool, scene: Scene) -> None:
    call = scene.push("ps:0")
    scene.go(2.0)
    if confirmed:
        call.confirm(scene.servers["ps:0"].received[0][2], scene.world.now)
    scene.crash(0.0, "ps:0")
    scene.go()
    ((ended_s, error),) = scene.client.ended
    assert ended_s == 2.0 + LATENCY_S
    assert (error is None) == confirmed


def test_a_push_to_an_incarnation_that_has_died_is_not_received_by_the_next(scene: Scene) -> None:
    scene.push("ps:0", "ps:1")
    scene.crash(LATENCY_S + 2 * FLIGHT_S - 0.01, "ps:0", 0.0)  # the bytes come before the word of its death
    scene.go()
    assert scene.servers["ps:0"].received == []
    assert [type(error) for _, error in scene.client.ended] == [UnavailableError]
    assert scene.is_clean


def test_what_comes_after_the_end_of_a_call_has_no_effect(scene: Scene) -> None:
    call = scene.push("ps:0")
    scene.go(2.0)
    call.drop()
    call.confirm(scene.servers["ps:0"].received[0][2], scene.world.now)
    call.fail(UnavailableError("too late"))
    scene.go()
    assert scene.client.ended == []


def test_an_answer_waits_for_a_client_that_is_paused(scene: Scene) -> None:
    scene.read("ps:0")
    scene.task.held = []
    scene.go()
    assert scene.client.ended == []
    held, scene.task.held = scene.task.held, None
    for function, argument in held:
        function(argument)
    assert scene.client.ended == [(5.0, None)]


@pytest.mark.parametrize(("cuts", "after_s", "is_lost"), [(1, LATENCY_S / 2, True), (2, LATENCY_S / 2, True), (1, 2 * LATENCY_S, False)])
def test_a_confirmation_that_a_cut_has_lost_stays_lost_when_its_way_is_cut_again(
    cuts: int, after_s: float, is_lost: bool, scene: Scene
) -> None:
    call = scene.push("ps:0", "ps:1")
    scene.go(3.0)
    first, second = (server.received[0][2] for server in scene.servers.values())
    call.confirm(first, scene.world.now)
    scene.go(after_s)
    for _ in range(cuts):
        scene.world.silence.cut(scene.world.tasks["ps:0"], scene.world.tasks["worker:0"])()
        scene.go(2 * LATENCY_S)  # by now it would have come
    call.confirm(second, scene.world.now)
    scene.go(CALL_TIMEOUT_S)
    assert [error is not None for _, error in scene.client.ended] == [is_lost]
