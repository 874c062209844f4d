"""The Lab's kernel side: what a message does, what is answered, and what is sent."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from typing import Any

import numpy as np
import pytest

import session_programs as programs
import simdist as sd
from session_programs import CRASH
from simdist import errors
from simdist_widgets.lab import Lab

Message = dict[str, Any]


class Heard:
    """What a Lab sends, as the front end would get it."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        self.messages: list[Message] = []
        self.rows: dict[int, int] = {}
        monkeypatch.setattr(lab, "send", self._take)

    def _take(self, content: Message, buffers: list[bytes] | None = None) -> None:
        json.dumps(content)
        self.messages.append(content)
        if content["kind"] == "clear":
            self.rows[content["branch"]] = 0
        elif content["kind"] == "rows":
            assert content["from_row"] == self.rows.get(content["branch"], 0), "rows come once, without a gap"
            self.rows[content["branch"]] = content["from_row"] + content["rows"]
            place = content["columns"]["start"]
            starts = np.frombuffer(buffers[0], "<f8", place["length"], place["offset"]) if buffers else np.zeros(0)
            assert len(starts) == content["rows"]

    def ask(self, verb: str, **arguments: Any) -> Message:
        """Send a message, and get the reply."""
        self.lab._message(self.lab, {"id": len(self.messages), "verb": verb, **arguments}, [])
        json.dumps(self.lab.state)
        assert self.messages[-1]["kind"] == "reply"
        return self.messages[-1]


@pytest.fixture
def lab() -> Lab:
    return Lab(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))


@pytest.fixture
def heard(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Heard:
    return Heard(lab, monkeypatch)


def test_clicks_do_what_their_lines_of_python_do(lab: Lab, heard: Heard) -> None:
    heard.ask("step", closures=2)
    heard.ask("inject", fault=CRASH)
    heard.ask("seek", t_s=0.002)
    heard.ask("seek", t_s=0.001)
    heard.ask("fork", t_s=0.0005, without=[0])
    heard.ask("advance")
    assert lab.state["state"] == "finished" and lab.state["branch"] == 1 and lab.state["commands"] == []
    names: dict[str, Any] = {"session": sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))}
    for line in lab.state["log"]:
        exec(line, names)
    fork = next(value for name, value in names.items() if name.startswith("fork_"))
    assert (fork.digest(), fork.result) == (lab.session.digest(), lab.session.result)
    assert heard.ask("select_branch", branch=0)["at_s"] == 0.001 == names["session"].now


def test_state_says_what_the_session_is(lab: Lab, heard: Heard) -> None:
    heard.ask("seek", t_s=0.0005)
    heard.ask("inject", fault={"kind": "pause", "task": "worker:1", "for": 0.001})
    heard.ask("seek", t_s=0.0006)
    state = lab.state
    assert (state["now_s"], state["state"], state["branch"]) == (0.0006, "paused", 0)
    assert state["tasks"][lab.session.cluster.tasks.index("worker:1")] == "paused"
    (fault,) = state["faults"]
    assert (fault["status"], fault["fired_s"], fault["healed_s"]) == ("fired", 0.0005, None)
    assert state["commands"][0]["fault"]["until"] == 0.0015
    assert state["queue"]["in_flight"] == len(state["queue"]["closures"]) > 0
    assert 0.0 <= max(state["loads"].values()) <= 1.0 and set(state["loads"]) >= {"worker:0", "ps:1"}
    heard.ask("advance")
    assert lab.state["faults"][0]["status"] == "healed" and "epoch 2" in lab.state["output"]


def test_rows_are_those_of_the_trace_and_are_sent_once(lab: Lab, heard: Heard) -> None:
    heard.ask("resend")
    for _ in range(5):
        heard.ask("step", events=60)
    heard.ask("advance")
    trace = lab.session.trace
    assert heard.rows[0] == len(trace.spans) + len(trace.instants) + len(trace.counters)
    heard.ask("seek", t_s=0.0)
    assert [message["kind"] for message in heard.messages[-3:]].count("clear") == 1
    heard.ask("advance")
    assert heard.rows[0] == len(trace.spans) + len(trace.instants) + len(trace.counters)
    heard.ask("resend")
    assert heard.rows[0] == len(trace.spans) + len(trace.instants) + len(trace.counters)


def test_what_cannot_be_done_is_answered_and_changes_nothing(lab: Lab, heard: Heard) -> None:
    heard.ask("seek", t_s=0.0005)
    before = (lab.session.digest(), lab.session.now, lab.session.commands)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("explode", {}),
        ("step", {}),
        ("step", {"events": 0}),
        ("step", {"events": 1, "steps": 1}),
        ("step", {"events": "many"}),
        ("advance", {"until": 0.0001}),
        ("advance", {"days": 3}),
        ("seek", {}),
        ("seek", {"t_s": "now"}),
        ("seek", {"t_s": -1.0}),
        ("inject", {"fault": "crash"}),
        ("inject", {"fault": {"kind": "flood"}}),
        ("inject", {"fault": {"kind": "crash", "task": "</script><b>"}}),
        ("inject", {"fault": {"kind": "pause", "task": "worker:0", "for": -1.0}}),
        ("plan", {"faults": [CRASH, {"kind": "crash", "task": "worker:9"}]}),
        ("plan", {"faults": "all"}),
        ("fork", {"t_s": 0.0, "without": [4]}),
        ("fork", {"t_s": 0.0, "without": ["x"]}),
        ("fork", {"t_s": 0.0, "without": 3}),
        ("select_branch", {"branch": 7}),
        ("close_branch", {"branch": 0}),
        ("compare", {"to": 0}),
        ("compare", {"with": 3}),
        ("recover", {"command": 0}),
        ("set_pace", {"pace": 0.0}),
        ("play", {"pace": "fast"}),
    ]
    for verb, arguments in wrong:
        reply = heard.ask(verb, **arguments)
        assert reply.get("error"), (verb, arguments)
    for content in (None, [], "play", {"verb": None}, {"id": {}, "verb": []}):
        lab._message(lab, content, [])
        assert heard.messages[-1]["error"]
    assert (lab.session.digest(), lab.session.now, lab.session.commands) == before


def test_program_that_fails_is_no_error_of_the_click(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise RuntimeError("not </script> enough")

    lab = Lab(program, sd.Cluster({"worker": 1}))
    heard = Heard(lab, monkeypatch)
    assert "error" not in heard.ask("advance")
    assert (lab.state["state"], lab.state["message"]) == ("failed", "RuntimeError: not </script> enough")
    assert "error" in heard.ask("seek", t_s=2.0)
    heard.ask("seek", t_s=0.5)
    assert (lab.state["state"], lab.state["message"]) == ("paused", "")


def test_plan_injects_all_its_faults(lab: Lab, heard: Heard) -> None:
    heard.ask("seek", t_s=0.0005)
    heard.ask("plan", faults=[CRASH, {"kind": "slow", "task": "ps:0", "factor": 2.0, "for": 0.001}])
    assert [command["fault"]["kind"] for command in lab.state["commands"]] == ["crash", "slow"]


def test_branches_are_compared_and_a_fault_has_its_story(lab: Lab, heard: Heard) -> None:
    heard.ask("seek", t_s=0.0005)
    heard.ask("inject", fault=CRASH)
    heard.ask("advance")
    assert heard.ask("fork", t_s=0.0003, without=[0])["branch"] == 1
    heard.ask("advance")
    found = heard.ask("compare", **{"with": 0})
    assert found["same_until_s"] == pytest.approx(0.0005) and "crash" in found["text"]
    heard.ask("select_branch", branch=0)
    story = heard.ask("recover", command=0)["recovery"]
    fork = next(shown for shown in lab.state["branches"] if shown["number"] == 1)
    assert story["cost_s"] == lab.session.now - fork["now_s"]
    assert sum(phase["cost_s"] for phase in story["phases"]) == pytest.approx(story["cost_s"], abs=1e-15)
    heard.ask("close_branch", branch=1)
    assert [shown["number"] for shown in lab.state["branches"]] == [0]


def test_branch_that_was_never_shown_has_rows_when_it_is_compared(lab: Lab, heard: Heard) -> None:
    lab.script([{"verb": "advance"}, {"verb": "fork", "t_s": 0.001}, {"verb": "advance"}])
    assert 0 not in heard.rows
    heard.ask("compare", **{"with": 0})
    assert heard.rows[0] == heard.rows[1] > 0


def test_default_pace_has_one_digit_and_lets_two_closures_end_in_a_second(lab: Lab) -> None:
    lab.session.advance(closures=3)
    closure_s = lab.session.progress_s[-1] / 3
    assert lab.pace == pytest.approx(2.0 * closure_s, rel=0.5)
    assert len(f"{lab.pace:e}".split("e")[0].rstrip("0.")) == 1


def test_playing_goes_on_until_a_second_and_is_the_same_run(lab: Lab, heard: Heard) -> None:
    async def story() -> None:
        await lab.play(until=0.0011, pace=0.01)
        assert lab.session.now == 0.0011 and lab.state["state"] == "paused"
        heard.ask("inject", fault=CRASH)
        heard.ask("play", pace=0.5)
        assert lab.state["state"] == "playing"
        while lab.session.state == "paused":
            await asyncio.sleep(0.0)

    asyncio.run(story())
    batch = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3), lab.session.commands)
    batch.advance()
    assert batch.digest() == lab.session.digest()


def test_clicks_stop_and_break_a_run_that_plays_from_another_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        lab = Lab(lambda cluster: [sd.sleep(0.001, cluster) for _ in range(100_000)], sd.Cluster({"worker": 1}))
        heard = Heard(lab, monkeypatch)
        heard.ask("play", pace=1.0)
        await asyncio.sleep(0.0)
        thread = threading.Thread(
            target=lambda: lab._message(lab, {"id": 1, "verb": "inject", "fault": {"kind": "slow", "task": "worker:0", "factor": 2.0}}, [])
        )
        thread.start()
        thread.join()
        while not lab.session.commands:
            await asyncio.sleep(0.0)
        heard.ask("pause")
        while lab.state["state"] == "playing":
            await asyncio.sleep(0.0)
        assert lab.session.state == "paused" and 0.0 < lab.session.now < 100.0

    asyncio.run(story())


def test_selected_spans_are_a_table(lab: Lab, heard: Heard) -> None:
    heard.ask("advance")
    trace = lab.session.trace
    numbers = trace.span_numbers()[:3].tolist()
    lab.selected = numbers
    assert lab.selection["name"].tolist() == [span.name for span in trace.spans[:3]]


def test_the_front_end_may_select_what_a_rewind_has_taken_back(lab: Lab, heard: Heard) -> None:
    heard.ask("advance")
    numbers = lab.session.trace.span_numbers()[:3].tolist()
    lab.set_state({"selected": [*numbers, 10**9, -4, "a", None]})
    assert lab.selected == numbers


def test_a_script_that_plays_says_what_goes_on(lab: Lab) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"verb='play' is for clicks\. In a script 'advance' goes on"):
        lab.script([{"verb": "play"}])


NAN = float("nan")


@pytest.mark.parametrize(
    ("trait", "value", "words"),
    [
        ("selected", [999999], "record 999999; the trace has"),
        ("selected", [-1], "record is -1; expected at least 0"),
        ("selected", [True], "record is True; expected an integer"),
        ("cursor_s", NAN, "finite virtual second.*given nan"),
        ("cursor_s", math.inf, "finite virtual second.*given inf"),
        ("view_s", [NAN, 1.0], r"start, end.*given \[nan, 1.0\]"),
        ("view_s", [3.0], "start, end"),
        ("view_s", [2.0, 1.0], "the end after the start"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_words(lab: Lab, trait: str, value: Any, words: str) -> None:
    before = getattr(lab, trait)
    with pytest.raises((errors.InvalidArgumentError, TypeError), match=words):
        setattr(lab, trait, value)
    assert getattr(lab, trait) == before


def test_exported_page_holds_the_rows_of_all_branches(lab: Lab, heard: Heard, tmp_path: Any) -> None:
    heard.ask("seek", t_s=0.0005)
    heard.ask("fork", t_s=0.0003)
    heard.ask("advance")
    state = lab.page_state()
    assert [rows["branch"] for rows in state["values"]["rows"]] == [0, 1]
    assert set(state["bytes"]) == {rows["bytes"] for rows in state["values"]["rows"]}
    assert {number: shown["branch"] for number, shown in state["values"]["states"].items()} == {"0": 0, "1": 1}
    assert [state["values"]["states"][number]["state"] for number in "01"] == ["paused", "finished"]
    page = lab.export_html(tmp_path / "lab.html").read_text()
    assert "Lab" in page


def test_wrong_arguments_are_refused() -> None:
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}))
    assert Lab(session).session is session
    with pytest.raises(TypeError, match="a session has one"):
        Lab(session, sd.Cluster({"worker": 1}))
    with pytest.raises(TypeError, match="without a cluster"):
        Lab(programs.coordinator)
