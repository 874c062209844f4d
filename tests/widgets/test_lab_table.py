"""The table of what was done: one line for each verb, its answer below, in columns."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
import simdist_widgets as sw
from session_programs import CRASH, session_of
from simdist_widgets.lab_table import as_text, line_of


def test_lines_say_what_was_done_and_where_the_session_stands() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    inject = line_of({"verb": "inject", "fault": CRASH}, {}, session)
    assert inject == ("inject crash task=worker:1 restart_after=0.0002", "paused", "0.000500 s", "0")
    assert line_of({"verb": "inject", "fault": None}, {}, session)[0] == "inject fault=None"
    compare = line_of({"verb": "compare", "with": 1}, {"text": "the same"}, session)
    recover = line_of({"verb": "recover", "command": 0}, {"recovery": {"text": "fault  crash\ncost  1 s"}}, session)
    assert as_text([inject, compare, recover]).splitlines() == [
        "verb                                            state              now  commands",
        "inject crash task=worker:1 restart_after=0.0002 paused      0.000500 s  0",
        "compare with=1                                  paused      0.000500 s  0",
        "    the same",
        "recover command=0                               paused      0.000500 s  0",
        "    fault  crash",
        "    cost  1 s",
    ]


def test_a_program_that_fails_is_shown_with_its_error_once(capsys: pytest.CaptureFixture[str]) -> None:
    def program(cluster: Any) -> None:
        sd.sleep(3.0, cluster)
        raise ValueError("3 is not 4\nbut less")

    lab = sw.Lab(program, sd.Cluster({"worker": 2}))
    lab.script([{"verb": verb, **more} for verb, more in (("advance", {}), ("advance", {}), ("seek", {"t_s": 1.0}), ("advance", {}))])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "advance                    failed      3.000000 s  0",
        "    ValueError: 3 is not 4",
        "    but less",
        "advance                    failed      3.000000 s  0",
        "seek t_s=1.0               paused      1.000000 s  0",
        "advance                    failed      3.000000 s  0",
        "    ValueError: 3 is not 4",
        "    but less",
    ]


def test_what_was_done_before_a_verb_that_cannot_be_done_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    lab = sw.Lab(lambda cluster: sd.ParameterServerStrategy(cluster), sd.Cluster({"worker": 0, "ps": 1}))
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"has failed at .* needs at least one worker"):
        lab.script([{"verb": "seek", "t_s": 0.5}, {"verb": "inject", "fault": CRASH}])
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 3 and table[1].startswith("seek t_s=0.5") and "InvalidArgumentError: ParameterServerStrategy needs" in table[2]
    assert lab.state["state"] == "failed", "the picture is of what was done, too"
