"""What a Lab answers: while it goes a long way, to an interrupt, to values that are no numbers; and what a saved notebook keeps."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import session_programs as programs
import simdist as sd
from session_programs import CRASH
from simdist_widgets import session_widget
from simdist_widgets.interrupts import Interrupts
from simdist_widgets.lab import Lab
from simdist_widgets.slices import Slice

Message = dict[str, Any]


@pytest.fixture
def lab() -> Lab:
    return Lab(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))


def listen(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    messages: list[Message] = []
    monkeypatch.setattr(lab, "send", lambda content, buffers=None: messages.append(json.loads(json.dumps(content))))
    return messages


def click(lab: Lab, ident: int, verb: str, **arguments: Any) -> None:
    lab._message(lab, {"id": ident, "verb": verb, **arguments}, [])


async def until_it_stands(lab: Lab) -> None:
    while lab._player is not None and not lab._player.done():
        await asyncio.sleep(0.0)


# -- a long way --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def all_ways_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_widget, "AT_ONCE_S", 0.0)
    monkeypatch.setattr(session_widget, "HURRY_S", 0.0)
    monkeypatch.setattr(session_widget, "REST_S", 0.0)


@pytest.mark.usefixtures("all_ways_are_long")
def test_other_messages_are_answered_while_a_seek_is_on_its_way(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        messages = listen(lab, monkeypatch)
        click(lab, 1, "seek", t_s=0.002)
        assert [message for message in messages if message["kind"] == "reply"] == []
        assert lab._new_state()["state"] == "playing" and lab.session.now < 0.002
        click(lab, 2, "set_pace", pace=0.5)
        await until_it_stands(lab)
        replies = [message for message in messages if message["kind"] == "reply"]
        assert [(reply["id"], reply.get("error")) for reply in replies] == [(2, None), (1, None)]
        assert replies[1]["at_s"] == lab.session.now == 0.002 and lab.state["state"] == "paused"

    asyncio.run(story())


@pytest.mark.usefixtures("all_ways_are_long")
@pytest.mark.parametrize("way", [[0.002, 0.001], [0.001, 0.0005, 0.0015]])
@pytest.mark.sample(2)
def test_a_long_way_ends_like_a_short_one_and_its_log_does_it_again(lab: Lab, way: list[float]) -> None:
    async def story() -> None:
        click(lab, 0, "inject", fault={**CRASH, "at": 0.0007})
        for ident, t_s in enumerate(way):
            click(lab, ident, "seek", t_s=t_s)
            await until_it_stands(lab)
            assert lab.session.now == t_s

    asyncio.run(story())
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
    again = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
    for line in lab._branches.log:
        exec(line, {"session": session})
    again.inject({**CRASH, "at": 0.0007})
    again.advance(until=way[-1])
    assert session.digest() == lab.session.digest() == again.digest()


@pytest.mark.usefixtures("all_ways_are_long")
def test_log_of_a_way_back_that_a_click_has_stopped_stops_between_the_same_events(lab: Lab) -> None:
    async def story() -> None:
        lab.session.advance(until=0.0005)
        click(lab, 0, "seek", t_s=0.0004)
        for _ in range(2):  # an event each
            await asyncio.sleep(0.0)
        assert not lab.session.is_settled
        click(lab, 1, "inject", fault=CRASH)
        lab.pause()
        await until_it_stands(lab)

    asyncio.run(story())
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
    for line in lab._branches.log:
        exec(line, {"session": session})
    assert session.commands == lab.session.commands != []


@pytest.mark.parametrize("at_once_s", [0.0, 60.0])
def test_a_seek_beyond_the_end_comes_to_the_end_and_its_log_does_it_again(at_once_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_widget, "AT_ONCE_S", at_once_s)
    naps = Lab(lambda cluster: [sd.sleep(0.001, cluster) for _ in range(3)], sd.Cluster({"worker": 1}))
    messages = listen(naps, monkeypatch)

    async def story() -> None:
        click(naps, 1, "seek", t_s=1.0)
        await until_it_stands(naps)

    asyncio.run(story())
    assert [(message.get("at_s"), message.get("error")) for message in messages if message["kind"] == "reply"] == [(naps.session.now, None)]
    session = sd.Session(naps.session.program, sd.Cluster({"worker": 1}))
    for line in naps._branches.log:
        exec(line, {"session": session})
    assert session.moment() == naps.session.moment() and session.state == naps.session.state == "finished"


@pytest.mark.usefixtures("all_ways_are_long")
def test_pause_stops_on_the_way(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        messages = listen(lab, monkeypatch)
        click(lab, 1, "advance")
        await asyncio.sleep(0.0)
        click(lab, 2, "pause")
        await until_it_stands(lab)
        assert (lab.session.state, lab.state["state"]) == ("paused", "paused")
        assert {message["id"] for message in messages if message["kind"] == "reply"} == {1, 2}

    asyncio.run(story())


def test_slices_become_short_where_events_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    run: Any = SimpleNamespace(clock=SimpleNamespace(queue=[1]), agenda=SimpleNamespace(next_s=lambda: 0.0))
    part, done = Slice(1.0, 0.02), 0
    while (budget := part.budget(run)) is not None:
        clock.now += budget[0] * 0.003
        done += budget[0]
    assert done <= 9, "single events of 3 ms: little more than 20 ms of them"
    part, budgets = Slice(1.0, 0.02), []
    while (budget := part.budget(run)) is not None:
        clock.now += budget[0] * 1e-5
        budgets.append(budget[0])
    assert max(budgets) > 100, "short events: few readings of the clock"


# -- an interrupt ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ignored() -> Iterator[None]:
    """As a kernel does while no cell runs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored")
def test_interrupt_pauses_what_a_click_plays(lab: Lab) -> None:
    async def story() -> None:
        click(lab, 1, "play", pace=1e-9)
        await asyncio.sleep(0.0)
        signal.raise_signal(signal.SIGINT)
        await until_it_stands(lab)
        assert (lab.session.state, lab.state["state"], lab.state["message"]) == ("paused", "paused", "")

    asyncio.run(story())
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("ignored")
def test_interrupt_ends_a_piece_of_work_and_nothing_else() -> None:
    pauses: list[int] = []
    interrupts = Interrupts(lambda: pauses.append(1))
    signal.raise_signal(signal.SIGINT)
    interrupts.arm()
    with pytest.raises(KeyboardInterrupt), interrupts.working():
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    interrupts.disarm()
    signal.raise_signal(signal.SIGINT)
    assert pauses == [1]


def test_interrupts_leave_alone_who_takes_them_already() -> None:
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts(lambda: None)
    interrupts.arm()
    assert signal.getsignal(signal.SIGINT) is before
    interrupts.disarm()
    assert signal.getsignal(signal.SIGINT) is before


# -- what is no number ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("recover", {"command": True}),
        ("select_branch", {"branch": False}),
        ("compare", {"with": False}),
        ("fork", {"t_s": 0.0, "without": [False]}),
    ],
)
def test_true_and_false_are_no_numbers(lab: Lab, monkeypatch: pytest.MonkeyPatch, verb: str, arguments: Message) -> None:
    messages = listen(lab, monkeypatch)
    click(lab, 1, "inject", fault=CRASH)
    click(lab, 2, verb, **arguments)
    assert "False" in messages[-1]["error"] or "True" in messages[-1]["error"]
    assert len(lab.state["branches"]) == 1


# -- what is selected, and what is kept ------------------------------------------------------------------------------------------


def test_selection_is_set_from_python_by_rows_or_by_numbers(lab: Lab) -> None:
    lab.session.advance(until=0.001)
    table = lab.session.trace.to_dataframe()
    updates = table[table["category"] == "update"]
    lab.selection = updates
    assert len(lab.selected) == len(updates) > 0
    assert lab.selection.equals(updates)
    numbers = list(lab.selected)
    lab.selection = numbers[:1]
    assert lab.selection.equals(updates.iloc[:1])
    lab.selection = []
    assert lab.selected == []


def test_selection_of_what_is_not_there_is_refused(lab: Lab) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="selection has record 99"):
        lab.selection = [99]
    with pytest.raises(TypeError, match="expected rows of"):
        lab.selection = "worker:0"


def test_saved_notebook_keeps_the_rows_when_nothing_plays(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(session_widget, "STORE_AFTER_S", 0.0)
        click(lab, 1, "seek", t_s=0.001)
        await until_it_stands(lab)
        await asyncio.sleep(0.001)
        (rows,) = lab.stored["rows"]
        assert rows["from_row"] == 0 and rows["rows"] == lab._branches.present.feed.rows and isinstance(rows["data"], bytes)
        assert lab.stored["states"]["0"]["now_s"] == 0.001
        monkeypatch.setattr(session_widget, "MOST_STORED", 10)
        click(lab, 2, "seek", t_s=0.0011)
        await until_it_stands(lab)
        await asyncio.sleep(0.001)
        assert lab.stored == {}, "too many: an old part would be worse than none"

    asyncio.run(story())


def test_verb_that_takes_long_is_announced_before(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = listen(lab, monkeypatch)
    click(lab, 1, "inject", fault=CRASH)
    click(lab, 2, "seek", t_s=0.001)
    monkeypatch.setattr(session_widget, "WARN_S", 0.0)
    click(lab, 3, "recover", command=0)
    assert [message["id"] for message in messages if message["kind"] == "busy"] == [3]
    assert [message["kind"] for message in messages if message.get("id") == 3] == ["busy", "reply"]


@pytest.mark.parametrize("messages", ["advance", {"verb": "advance"}, ["advance"], None])
def test_a_script_that_is_no_list_of_messages_is_refused(lab: Lab, messages: Any) -> None:
    with pytest.raises(TypeError, match=r"script takes a list of dicts, for example \[{\"verb\": \"advance\"}\]; got"):
        lab.script(messages)
