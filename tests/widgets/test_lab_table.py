"""The table of what was done: one line for each verb, its answer below, in columns."""

from __future__ import annotations

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
