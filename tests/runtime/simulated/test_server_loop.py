"""A server of variables: applies each update once, one after the other, and tells what it has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simdist.cost.flops import Cost
from simdist.errors import AbortedError, UnavailableError
from simdist.hardware import Device
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.calls import ServerCall
from simdist.trace.records import NO_CAUSE
from simdist.variables.layout import Layout
from simdist.variables.state import Cell, Group
from tests.runtime.simulated.machines import world

SECONDS = 2.0
AVAL = Aval((), "float32")


class Push:
    """An update on its way from worker:0, as its server sees it."""

    def __init__(self, scene: Scene, amount: float, read_version: int | None = 0) -> None:
        self.scene = scene
        self.identity: tuple[int, int, int] | None = None
        self.applied: dict[Any, object] = {}
        self.repeats, self.received = False, dict[Any, Any]()
        self.client = scene.world.tasks["worker:0"]
        self.step = 3
        self.began_after = NO_CAUSE
        self.open = True
        self.priced = scene.priced
        self.operands = [Bundle.of([np.float32(amount)])]
        self.read_versions = {} if read_version is None else {scene.group.number: read_version}
        self.confirmed: list[float] = []
        self.errors: list[BaseException] = []
        self.silent: list[Any] = []
        self.errand = self.rounds = None
        routes = scene.world.routes
        legs = routes.leg(self.client, scene.task, "update", 4), routes.word(scene.task, self.client, "update_reply")
        self.part = ServerCall(scene.server, (), scene.update).travel(*legs)

    def confirm(self, part: ServerCall, applied_s: float, applied: int) -> None:
        self.confirmed.append(applied_s)

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)

    def fail_later(self, part: ServerCall, error: BaseException, kind: str) -> None:
        assert kind in ("update_reply", "reset")
        self.scene.world.clock.after(part.back.latency_s, self.fail, error)

    def silenced(self, leg: Any) -> None:
        self.silent.append(leg)

    def arrive(self) -> Push:
        self.scene.server.receive(self, self.part, self.scene.task.process)  # type: ignore[arg-type]
        return self


class Scene:
    """ps:0 holds a number; an update adds to it, and takes two seconds."""

    def __init__(self) -> None:
        self.world = world(Device())
        self.task = self.world.tasks["ps:0"]
        self.server = self.world.servers["ps:0"]
        cell = Cell("v", AVAL, "ps:0")
        Layout(self.world.states).add(cell, np.float32(0))
        self.group: Group = cell.group
        kernel = kernel_of("add", lambda state, operand: [state + operand], [AVAL, AVAL])
        self.update = Apply(0, self.group.number, "ps:0", kernel, (AVAL,), (AVAL,), 0, 4)
        site = self.world.ledger.site(kernel, [(AVAL,), (AVAL,)], [(AVAL,)])
        self.priced: Any = SimpleNamespace(costs=[Cost(0, 0, SECONDS)], sites=[site])
        self.told: list[str] = []
        self.world.step_ended.append(self.told.append)

    @property
    def value(self) -> float:
        return float(self.world.ledger.arrays(self.world.states.present(self.group.number))[0])

    def go(self, seconds: float = 20.0) -> None:
        self.world.clock.sleep(seconds)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_update_is_applied_when_the_device_is_free_one_after_the_other(scene: Scene) -> None:
    first, second = Push(scene, 1).arrive(), Push(scene, 10).arrive()
    scene.go(SECONDS * 1.5)
    assert (scene.value, first.confirmed, second.confirmed) == (1, [SECONDS], [])
    scene.go()
    assert (scene.value, second.confirmed) == (11, [2 * SECONDS])
    assert scene.task.updates == 2 and scene.told == ["ps:0", "ps:0"]
    spans = list(scene.world.trace.spans.where(category="apply"))
    assert [(span.start_s, span.end_s) for span in spans] == [(0, SECONDS), (SECONDS, 2 * SECONDS)]
    assert [span.facts for span in spans] == [{"worker": "worker:0", "version": v, "read_version": 0} for v in (1, 2)]


def test_an_update_that_comes_twice_is_applied_once_and_confirmed_twice(scene: Scene) -> None:
    push = Push(scene, 1)
    push.repeats = True
    push.arrive().arrive()
    next_one = Push(scene, 1).arrive()
    scene.go()
    assert (scene.value, scene.task.updates, scene.world.states.version(scene.group.number)) == (2, 2, 2)
    # The copy takes the device no time, whenever it comes.
    assert (push.confirmed, next_one.confirmed) == ([SECONDS, SECONDS], [2 * SECONDS])
    assert scene.told == ["ps:0", "ps:0"]
    now = scene.world.clock.now
    push.arrive()
    assert Push(scene, 1).arrive().part is not push.part
    scene.go()
    assert (scene.value, push.confirmed[2:], scene.world.trace.spans[-1].start_s) == (3, [now], now)


def test_a_copy_is_recognised_however_many_updates_came_before_it(scene: Scene) -> None:
    first = Push(scene, 1).arrive()
    for _ in range(3_000):
        Push(scene, 1).arrive()
    scene.go(3_001 * SECONDS)
    assert scene.value == 3_001
    first.arrive()
    scene.go()
    assert (scene.value, len(first.confirmed)) == (3_001, 2)


def test_what_was_lost_with_the_memory_of_a_server_is_applied_again(scene: Scene) -> None:
    push = Push(scene, 1).arrive()
    scene.go()
    scene.server.forget()
    push.arrive()
    scene.go()
    assert scene.value == 2


def test_an_update_of_a_call_that_is_over_is_not_applied(scene: Scene) -> None:
    push = Push(scene, 1).arrive()
    push.open = False
    scene.go()
    assert (scene.value, push.confirmed) == (0, [])


@pytest.mark.parametrize("notices", [[(0, 4), (0, 7)], [(0, 7), (0, 4)]], ids=["in_order", "the_older_one_is_late"])
def test_an_update_of_a_closure_that_was_given_away_is_refused_in_whatever_order_the_server_hears_of_it(
    scene: Scene, notices: list[tuple[int, int]]
) -> None:
    coordinator = 3
    for incarnation, ordinal in notices:
        scene.server.give_up((coordinator, "worker:0", incarnation, ordinal))
    late, wanted = Push(scene, 1), Push(scene, 10)
    for push, ordinal in ((late, 7), (wanted, 8)):
        ticket = SimpleNamespace(oldest=0)
        push.errand = SimpleNamespace(ordinal=ordinal, served=SimpleNamespace(number=coordinator), ticket=ticket)  # type: ignore[assignment]
        push.arrive()
    scene.go()
    assert scene.value == 10 and len(wanted.confirmed) == 1
    assert [type(error) for error in late.errors] == [AbortedError]


def test_an_update_of_an_incarnation_that_died_meanwhile_is_not_applied(scene: Scene) -> None:
    push = Push(scene, 1).arrive()
    scene.world.clock.after(SECONDS / 2, lambda _: scene.world.crash(scene.task, 0.0))
    scene.go()
    assert (push.confirmed, push.errors, scene.task.updates) == ([], [], 0)
    with pytest.raises(UnavailableError):
        scene.value  # noqa: B018


def test_an_update_of_variables_that_are_lost_fails_one_latency_later(scene: Scene) -> None:
    scene.world.states.lose("ps:0")
    push = Push(scene, 1).arrive()
    scene.go(SECONDS)
    assert push.errors == []
    scene.go(push.part.back.latency_s)
    assert [type(error) for error in push.errors] == [UnavailableError]
    assert push.confirmed == []


def test_a_paused_server_applies_what_came_when_it_goes_on(scene: Scene) -> None:
    push = Push(scene, 1).arrive()
    scene.task.held = []
    scene.go()
    assert (scene.value, push.confirmed, push.silent) == (0, [], [push.part.there])
    held, scene.task.held = scene.task.held, None
    for function, argument in held:
        function(argument)
    assert scene.value == 1 and len(push.confirmed) == 1


def put_off(moment_s: float, pauses: list[tuple[float, float]], is_start: bool) -> float:
    """When something happens that would happen at a moment, if a device stands still meanwhile."""
    for from_s, until_s in pauses:
        if from_s < moment_s or (is_start and from_s == moment_s):
            moment_s += until_s - from_s
    return moment_s


@pytest.mark.parametrize(
    "pauses",
    [
        [(1.0, 1.5)],  # within the first update
        [(1.0, 50.0)],  # longer than all of them
        [(SECONDS, SECONDS + 0.25)],  # when the second one begins
        [(0.0, 0.5)],
        [(0.5, 0.75), (1.0, 2.5), (5.0, 9.0)],
    ],
)
def test_updates_of_a_server_that_pauses_end_later_by_the_length_of_the_pause_and_never_overlap(
    scene: Scene, pauses: list[tuple[float, float]]
) -> None:
    pushes = [Push(scene, 1).arrive() for sequence in range(3)]
    for from_s, until_s in pauses:
        scene.go(from_s - scene.world.now)
        heal = scene.world.silence.pause(scene.task)
        scene.go(until_s - scene.world.now)
        heal()
    late = Push(scene, 1).arrive()  # waits behind those that are put off
    scene.go(100.0)
    planned = [(SECONDS * number, SECONDS * (number + 1)) for number in range(3)]
    expected = [(put_off(start_s, pauses, is_start=True), put_off(end_s, pauses, is_start=False)) for start_s, end_s in planned]
    begins_s = max(pauses[-1][1], expected[-1][1])
    spans = [(span.start_s, span.end_s) for span in scene.world.trace.spans.where(category="apply")]
    assert spans == [*expected, (begins_s, begins_s + SECONDS)]
    assert [push.confirmed for push in [*pushes, late]] == [[end_s] for _, end_s in spans]
    assert scene.value == 4


def test_an_update_without_a_read_says_nothing_of_staleness(scene: Scene) -> None:
    Push(scene, 1, read_version=None).arrive()
    scene.go()
    (span,) = scene.world.trace.spans.where(category="apply")
    assert span.facts == {"worker": "worker:0", "version": 1}


def test_an_answer_has_the_present_versions_at_their_places_and_says_what_is_lost(scene: Scene) -> None:
    Push(scene, 5).arrive()
    scene.go()
    found, versions = [None, "kept"], [0, 9]
    assert scene.server.answer([(scene.group.number, 0)], found, versions) is None
    assert found[0] is scene.world.states.present(scene.group.number) and (found[1], versions) == ("kept", [1, 9])
    scene.world.states.lose("ps:0")
    assert isinstance(scene.server.answer([(scene.group.number, 0)], found, versions), UnavailableError)


def test_an_answer_for_a_group_that_was_joined_is_taken_out_of_the_new_one(scene: Scene) -> None:
    layout, other = Layout(scene.world.states), Cell("w", AVAL, "ps:0")
    layout.groups.append(scene.group)
    layout.add(other, np.float32(7))
    old = scene.group.number
    layout.join([other, scene.group.cells[0]])
    Push(scene, 5).arrive()
    scene.go()
    found, versions = [None], [0]
    assert scene.server.answer([(old, 0)], found, versions) is None
    assert (float(scene.world.ledger.arrays(found[0])[0]), versions) == (5, [1])
