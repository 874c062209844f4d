"""What a cell of a notebook does to a session is seen in the widgets of that session, when the cell has ended."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import IPython
import pytest
from IPython.core.events import EventManager

import simdist as sd
from simdist_widgets.after_cells import after_each_cell
from simdist_widgets.fault_console import FaultConsole
from simdist_widgets.recorded_branches import count_rows


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> EventManager:
    """The events of a notebook."""
    shell: Any = SimpleNamespace()
    shell.events = EventManager(shell, {"post_run_cell": lambda result: None})
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    return shell.events


def end_cell(events: EventManager) -> None:
    events.trigger("post_run_cell", None)


def test_a_console_shows_what_a_cell_has_done_to_its_session(events: EventManager, monkeypatch: pytest.MonkeyPatch) -> None:
    session = sd.Session(lambda cluster: sd.sleep(1.0, cluster), sd.Cluster({"worker": 2}))
    console = FaultConsole(session)
    shown: list[str] = []
    monkeypatch.setattr(console, "send", lambda content, buffers=None: shown.append(content["kind"]))
    end_cell(events)
    assert shown == [], "nothing has changed"
    session.inject({"kind": "crash", "task": "worker:1"})
    end_cell(events)
    assert [fault["status"] for fault in console.state["faults"]] == ["pending"]
    session.advance()
    end_cell(events)
    assert (console.state["state"], console.state["now_s"]) == ("finished", 1.0)
    assert [fault["status"] for fault in console.state["faults"]] == ["fired"]
    session.rewind(0.5)
    end_cell(events)
    assert (console.state["state"], console.state["now_s"]) == ("paused", 0.5)


def test_events_that_take_no_time_are_shown_too(events: EventManager) -> None:
    def program(cluster: sd.Cluster) -> None:
        for mark in ("first", "second"):
            cluster.trace.instant("chief:0", "mark", mark, cluster.now)
            sd.sleep(0.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 2}))
    console = FaultConsole(session)
    end_cell(events)
    session.advance(events=1)
    end_cell(events)
    assert (console.state["now_s"], console.state["events"]) == (0.0, 1)
    assert count_rows(console._branches) == console._branches.present.feed.rows


def test_runs_that_are_not_kept_do_not_run_again_at_the_end_of_a_cell(events: EventManager) -> None:
    runs: list[float] = []

    def program(cluster: sd.Cluster) -> None:
        runs.append(cluster.now)
        sd.sleep(1.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    session.advance()
    console = FaultConsole(session)
    others = [session.fork(0.5) for _ in range(9)]
    assert not session.is_kept and console.state["state"] == "finished"
    before = len(runs)
    end_cell(events)
    assert len(runs) == before and len(others) == 9


def test_nobody_is_kept_alive_by_the_cells_that_end(events: EventManager) -> None:
    rung: list[str] = []

    class Bell:
        def ring(self) -> None:
            rung.append("ding")

    bell = Bell()
    after_each_cell(bell.ring)
    end_cell(events)
    del bell
    gc.collect()
    end_cell(events)
    assert rung == ["ding"] and events.callbacks["post_run_cell"] == []
