"""Words and bytes between tasks: how long they take, what is lost on the way, and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from simdist.runtime.simulated.legs import Leg, Legs
from tests.runtime.simulated.machines import BANDWIDTH, LATENCY_S, world


class Sender:
    """Sends, and writes down what becomes of it."""

    def __init__(self) -> None:
        self.open = True
        self.flows: list[Any] = []
        self.stays: list[Leg] = []
        self.lost: list[Leg] = []
        self.twice: list[Leg] = []
        self.came: list[tuple[float, Any]] = []

    def leaving(self, legs: Legs) -> Legs | None:
        return legs.only(lambda leg: leg not in self.stays)

    def repeated(self, leg: Leg) -> None:
        self.twice.append(leg)

    def silenced(self, leg: Leg) -> None:
        self.lost.append(leg)


@pytest.fixture
def there() -> Any:
    return world()


@pytest.fixture
def sender() -> Sender:
    return Sender()


def words(there: Any, *targets: str) -> list[Leg]:
    return [there.routes.word(there.tasks["worker:0"], there.tasks[target], "read") for target in targets]


def parcels(there: Any, size_bytes: float, *targets: str) -> list[Leg]:
    return [there.routes.leg(there.tasks["worker:0"], there.tasks[target], "update", size_bytes) for target in targets]


def send(there: Any, sender: Sender, legs: Sequence[Leg]) -> None:
    there.transport.send(Legs(legs), sender, lambda arrived: sender.came.append((there.now, arrived)))


def test_words_that_take_equally_long_arrive_together(there: Any, sender: Sender) -> None:
    legs = words(there, "ps:0", "ps:1")
    send(there, sender, legs)
    there.clock.sleep(5.0)
    assert sender.came == [(LATENCY_S, tuple(legs))]
    assert there.trace.totals == {}


def test_bytes_take_the_latency_and_their_share_of_the_links_and_are_counted_once_they_go(there: Any, sender: Sender) -> None:
    legs = parcels(there, 1000.0, "ps:0", "ps:1")
    send(there, sender, legs)
    there.clock.sleep(LATENCY_S / 2)
    assert there.trace.totals == {}
    there.clock.sleep(5.0)
    both_s = pytest.approx(LATENCY_S + 2000.0 / BANDWIDTH)  # they share the port of their source
    assert sender.came == [(both_s, legs[0]), (both_s, legs[1])]
    assert there.trace.totals == {("worker:0", "bytes_sent"): 2000.0}


def test_nothing_comes_of_a_sender_that_has_closed(there: Any, sender: Sender) -> None:
    send(there, sender, parcels(there, 10.0, "ps:0"))
    send(there, sender, words(there, "ps:0"))
    sender.open = False
    there.clock.sleep(5.0)
    assert (sender.came, sender.lost, there.trace.totals) == ([], [], {})


def test_bytes_that_do_not_leave_are_not_counted(there: Any, sender: Sender) -> None:
    legs = parcels(there, 10.0, "ps:0", "ps:1")
    sender.stays = legs[:1]
    send(there, sender, legs)
    there.clock.sleep(5.0)
    assert [leg for _, leg in sender.came] == legs[1:]
    assert there.trace.totals == {("worker:0", "bytes_sent"): 10.0}


@pytest.mark.parametrize("when", ["before", "on the way"])
@pytest.mark.parametrize("size_bytes", [0, 10.0])
def test_a_message_over_a_pair_that_is_blocked_is_lost_and_its_sender_knows(
    when: str, size_bytes: float, there: Any, sender: Sender
) -> None:
    legs = parcels(there, size_bytes, "ps:0", "ps:1") if size_bytes else words(there, "ps:0", "ps:1")
    if when == "before":
        there.transport.blocked.add(("worker:0", "ps:0"))
    send(there, sender, legs)
    there.clock.sleep(LATENCY_S / 2)
    there.silence.cut(there.tasks["worker:0"], there.tasks["ps:0"])
    there.clock.sleep(5.0)
    assert sender.lost == legs[:1]
    came = [leg for _, arrived in sender.came for leg in (arrived if isinstance(arrived, tuple) else [arrived])]
    assert came == legs[1:]


@pytest.mark.parametrize(
    ("source", "target", "lost"), [("worker:0", "ps:0", True), ("ps:0", "worker:0", False), ("worker:0", "chief:0", False)]
)
def test_bytes_that_flow_are_lost_where_their_direction_is_cut_and_nowhere_else(
    source: str, target: str, lost: bool, there: Any, sender: Sender
) -> None:
    legs = parcels(there, 1000.0, "ps:0", "ps:1")
    there.tasks["worker:0"].calls[sender] = None
    send(there, sender, legs)
    there.clock.sleep(2 * LATENCY_S)  # half a second of the two in which the bytes flow
    there.silence.cut(there.tasks[source], there.tasks[target])()
    assert sender.lost == legs[:lost]  # at once, and for good, however short the cut is
    there.clock.sleep(5.0)
    assert [leg for _, leg in sender.came] == legs[lost:]


def test_a_blocked_pair_blocks_one_direction(there: Any, sender: Sender) -> None:
    there.transport.blocked.add(("ps:0", "worker:0"))
    send(there, sender, words(there, "ps:0"))
    there.clock.sleep(1.0)
    assert len(sender.came) == 1 and sender.lost == []


# -- letters -------------------------------------------------------------------------------------------------------------


def post(there: Any, log: list[str], source: str = "worker:0", target: str = "chief:0") -> None:
    there.routes.post(
        there.tasks[source],
        there.tasks[target],
        "notice",
        lambda text: log.append(f"came: {text}"),
        "it",
        lambda text: log.append(f"lost: {text}"),
    )


@pytest.mark.parametrize("dies", ["worker:0", "worker:1"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_letter_is_not_read_where_one_of_the_two_has_died_on_the_way(dies: str, restarts: bool, there: Any) -> None:
    log: list[str] = []
    post(there, log, target="worker:1")
    there.clock.after(LATENCY_S / 2, lambda _: there.crash(there.tasks[dies], 0.0 if restarts else None))
    there.clock.sleep(5.0)
    assert log == []


def test_a_letter_that_is_lost_is_told_to_who_cares(there: Any) -> None:
    log: list[str] = []
    there.transport.blocked.add(("worker:0", "chief:0"))
    post(there, log)
    assert log == ["lost: it"]
    there.transport.blocked.clear()
    post(there, log)
    there.silence.cut(there.tasks["worker:0"], there.tasks["chief:0"])()  # however short it is
    there.clock.sleep(1.0)
    assert log == ["lost: it"] * 2


@pytest.mark.parametrize("dies", [False, True])
def test_a_letter_to_a_paused_task_waits_until_it_goes_on_unless_it_dies(dies: bool, there: Any) -> None:
    log: list[str] = []
    task = there.tasks["worker:1"]
    task.held = []
    post(there, log, target="worker:1")
    there.clock.sleep(1.0)
    assert log == [] and len(task.held) == 1
    held, task.held = task.held, None
    if dies:
        there.crash(task, 0.0)
        there.clock.sleep(1.0)
    for function, argument in held:
        function(argument)
    assert log == ([] if dies else ["came: it"])
