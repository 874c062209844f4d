"""Playing: clicks that come in the middle of it, errors that nobody waits for, and runs that begin again behind the Lab's back."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import threading
import weakref
from typing import Any

import pytest

import session_programs as programs
import simdist as sd
from session_programs import CRASH
from simdist import errors
from simdist_widgets.fault_console import FaultConsole
from simdist_widgets.lab import Lab
from simdist_widgets.session_widget import SessionWidget

Message = dict[str, Any]
SLOW = {"kind": "slow", "task": "worker:0", "factor": 2.0}


def naps(cluster: sd.Cluster) -> None:
    for _ in range(100_000):
        sd.sleep(0.001, cluster)


def listen(widget: SessionWidget, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    messages: list[Message] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: messages.append(json.loads(json.dumps(content))))
    return messages


def click(widget: SessionWidget, verb: str, **arguments: Any) -> None:
    widget._message(widget, {"id": 7, "verb": verb, **arguments}, [])


async def until_it_stands(widget: SessionWidget) -> None:
    while widget._player is not None and not widget._player.done():
        await asyncio.sleep(0.0)


def rows_of(messages: list[Message]) -> int:
    """How many rows the front end has of the first branch."""
    rows = 0
    for message in messages:
        if message["kind"] == "clear":
            rows = 0
        elif message["kind"] == "rows":
            assert message["from_row"] == rows, "rows come once, without a gap"
            rows += message["rows"]
    return rows


def test_play_right_after_a_pause_plays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        lab = Lab(naps, sd.Cluster({"worker": 1}))
        messages = listen(lab, monkeypatch)
        click(lab, "play", pace=1.0)
        first = lab._player
        await asyncio.sleep(0.0)
        for verb in ("pause", "pause", "play"):
            click(lab, verb)
        assert first is not None and first is not lab._player
        while not first.done():
            await asyncio.sleep(0.0)
        assert lab.state["state"] == "playing", "the end of the first play() does not end the second"
        click(lab, "play")
        assert "plays already" in messages[-1]["error"]
        click(lab, "pause")
        await until_it_stands(lab)
        assert lab.state["state"] == "paused"

    asyncio.run(story())


def test_log_of_a_run_that_was_played_does_what_the_clicks_did() -> None:
    async def story() -> Lab:
        lab = Lab(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
        await lab.play(until=0.0004, pace=0.01)
        lab.session.advance(events=3)  # in a cell
        click(lab, "inject", fault=CRASH)
        click(lab, "play", until=0.0011, pace=0.002)
        await asyncio.sleep(0.0)
        click(lab, "inject", fault={**SLOW, "for": 0.0003})
        await until_it_stands(lab)
        click(lab, "fork", t_s=0.0003, without=[0])
        click(lab, "play", pace=0.01)
        await until_it_stands(lab)
        return lab

    lab = asyncio.run(story())
    names: dict[str, Any] = {"session": sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))}
    for line in lab._branches.log:
        exec(line, names)
    assert names["fork_1"].digest() == lab.session.digest() and names["fork_1"].commands == lab.session.commands
    assert names["session"].moment() == lab._branches[0].session.moment()
    assert names["session"].digest() == lab._branches[0].session.digest()


def test_playing_ends_where_another_branch_is_shown() -> None:
    async def story() -> None:
        lab = Lab(naps, sd.Cluster({"worker": 1}))
        click(lab, "play", pace=1.0)
        await asyncio.sleep(0.0)
        click(lab, "fork", t_s=0.0)
        click(lab, "close_branch", branch=0)
        await until_it_stands(lab)
        assert (lab.state["branch"], lab.state["state"], lab.session.now) == (1, "paused", 0.0)

    asyncio.run(story())


def test_session_that_is_closed_while_it_plays_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        lab = Lab(naps, sd.Cluster({"worker": 1}))
        listen(lab, monkeypatch)
        click(lab, "play", pace=1.0)
        await asyncio.sleep(0.0)
        lab.session.close()
        await until_it_stands(lab)
        assert lab.state["state"] == "closed"
        with pytest.raises(errors.FailedPreconditionError, match="session is closed"):
            await lab.play()

    asyncio.run(story())


def test_error_of_a_play_for_which_nobody_waits_is_shown() -> None:
    async def story() -> None:
        lab = Lab(naps, sd.Cluster({"worker": 1}))
        click(lab, "play", pace=1.0)
        await asyncio.sleep(0.0)
        thread = threading.Thread(target=lambda: lab.session.inject({"kind": "crash", "task": "worker:9"}))
        thread.start()
        thread.join()
        await until_it_stands(lab)
        assert "worker:9" in lab.state["message"] and lab.state["state"] == "paused"
        click(lab, "step", events=1)
        assert lab.state["message"] == ""

    asyncio.run(story())


def test_ctrl_c_pauses_what_a_click_began_and_leaves_the_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        lab = Lab(naps, sd.Cluster({"worker": 1}))
        messages = listen(lab, monkeypatch)
        monkeypatch.setattr(lab.session, "advance_to", interrupted)
        monkeypatch.setattr(lab.session, "advance", interrupted)
        click(lab, "play", pace=1.0)
        await until_it_stands(lab)
        assert "KeyboardInterrupt" in lab.state["message"] and lab.state["state"] == "paused"
        click(lab, "advance")
        assert "KeyboardInterrupt" in messages[-1]["error"]

    asyncio.run(story())


def test_ctrl_c_in_the_programs_own_code_ends_the_cell_that_plays_or_does_a_script() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(0.001, cluster)
        signal.raise_signal(signal.SIGINT)

    async def story() -> None:
        with pytest.raises(KeyboardInterrupt):
            await Lab(program, sd.Cluster({"worker": 1})).play(pace=1.0)

    lab = Lab(program, sd.Cluster({"worker": 1}))
    with pytest.raises(KeyboardInterrupt):
        lab.script([{"verb": "advance"}, {"verb": "seek", "t_s": 0.0}])
    assert (lab.session.state, lab.session.now) == ("failed", 0.001)  # the second message was not carried out
    loop = asyncio.new_event_loop()  # asyncio.run would take Ctrl-C itself
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_program_that_raises_while_it_plays_has_failed_and_says_why() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(0.001, cluster)
        raise RuntimeError("not enough")

    async def story() -> None:
        lab = Lab(program, sd.Cluster({"worker": 1}))
        await lab.play(pace=1.0)
        assert (lab.state["state"], lab.state["message"]) == ("failed", "RuntimeError: not enough")

    asyncio.run(story())


def test_run_that_was_rewound_in_a_cell_is_sent_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
    lab, console = Lab(session), FaultConsole(session)
    heard = listen(lab, monkeypatch), listen(console, monkeypatch)
    for widget in (lab, console):
        click(widget, "advance")
    assert rows_of(heard[0]) == rows_of(heard[1]) > 0
    session.rewind(0.0004)
    session.inject(SLOW)
    click(console, "seek", t_s=0.0002)
    click(lab, "advance")
    click(console, "resend")
    trace = session.trace
    assert rows_of(heard[0]) == rows_of(heard[1]) == len(trace.spans) + len(trace.instants) + len(trace.counters)
    assert "session.rewind(0.0002)" in lab.state["log"][-2]


def test_runs_that_were_put_aside_go_on_with_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
    messages = listen(lab, monkeypatch)
    lab.session._branch.family.most_runs = 1
    click(lab, "seek", t_s=0.0005)
    before = rows_of(messages)
    session = lab.session
    click(lab, "fork", t_s=0.0003)
    click(lab, "fork", t_s=0.0002)
    assert not session.is_kept
    messages[:] = [message for message in messages if message.get("branch") == 0]
    click(lab, "select_branch", branch=0)
    click(lab, "advance")
    trace = session.trace
    assert rows_of([m for m in messages if m.get("branch") == 0]) == len(trace.spans) + len(trace.instants) + len(trace.counters) > before


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("play", {"until": 0.0001}),
        ("play", {"until": 10**400}),
        ("play", {"speed": 2}),
        ("pause", {"until": 1.0}),
        ("seek", {"t_s": 10**400}),
        ("inject", {"fault": {**SLOW, "factor": 10**400}}),
        ("inject", {"fault": {**SLOW, "after_steps": 3, "for": 0.1}}),
        ("inject", {"fault": {**SLOW, "until": 3.0, "for": 0.1}}),
        ("inject", {"fault": {**SLOW, "at": "soon", "for": 0.1}}),
        ("fork", {"t_s": 0.0, "without": 3}),
        ("fork", {"t_s": 0.0, "without": [[0]]}),
    ],
)
def test_message_that_makes_no_sense_is_answered(verb: str, arguments: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        lab = Lab(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
        messages = listen(lab, monkeypatch)
        click(lab, "seek", t_s=0.0005)
        await until_it_stands(lab)  # on a slow machine it goes on between the turns of the loop
        click(lab, verb, **arguments)
        assert messages[-1]["kind"] == "reply" and messages[-1].get("error"), messages[-1]
        assert lab.session.commands == [] and lab.state["state"] == "paused"

    asyncio.run(story())


def test_play_without_a_running_loop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(naps, sd.Cluster({"worker": 1}))
    messages = listen(lab, monkeypatch)
    click(lab, "play")
    assert "event loop" in messages[-1]["error"] and lab.state["state"] == "paused"


@pytest.mark.parametrize("kind", [Lab, FaultConsole])
def test_widget_that_is_closed_is_not_kept(kind: type[SessionWidget]) -> None:
    widget = kind(naps, sd.Cluster({"worker": 1}))
    known = weakref.ref(widget)
    widget.close()
    del widget
    gc.collect()
    assert known() is None
