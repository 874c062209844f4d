"""A failure's story on a page: its bars have the lengths of the phases, and no name does harm."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import simdist as sd
import simdist_widgets as sw
from session_programs import CRASH, session_of
from simdist import errors
from simdist_widgets import recovery_story


def broken() -> sd.Session:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    session.inject(CRASH)
    return session


def test_bars_are_as_long_as_the_phases_and_end_with_the_runs() -> None:
    shown = sw.Recovery(broken())
    (svg,) = re.findall(r"<svg.*</svg>", shown.html())
    bars = ElementTree.fromstring(svg).findall("rect")
    story = shown.story
    scale = (recovery_story.WIDTH - recovery_story.LEFT - 10) / max(story.end_s, story.end_without_s)
    before, *phases, without = bars
    assert float(before.attrib["width"]) == pytest.approx(0.0005 * scale, abs=0.1)
    for bar, phase in zip(phases, story.phases, strict=True):
        assert float(bar.attrib["x"]) == pytest.approx(recovery_story.LEFT + phase.begin_s * scale, abs=0.1)
        assert float(bar.attrib["width"]) == pytest.approx(max(1.5, (phase.end_s - phase.begin_s) * scale), abs=0.1)
    assert float(without.attrib["width"]) == pytest.approx(story.end_without_s * scale, abs=0.1)


def test_text_and_page_say_the_same_as_the_figures(tmp_path: Path) -> None:
    session = broken()
    shown = sw.Recovery(session, session.commands[0])
    assert repr(shown) == str(sd.recovery(session, session.commands[0]))
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == repr(shown) and "<table" in bundle["text/html"]
    page = shown.export_html(tmp_path / "deep" / "story.html").read_text(encoding="utf-8")
    for name, _ in shown.story.rows():
        assert f"</span>{name}</th>" in page


def test_hostile_texts_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = sw.Recovery(broken())
    hostile = "</script><b onmouseover='x'>" + "w" * 10_000
    object.__setattr__(shown.story, "fault", hostile)
    html = shown.html()
    assert "<b " not in html and "</script>" not in html and len(html) < 10_000


def test_session_without_commands_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no command"):
        sw.Recovery(session_of("coordinator"))


def test_a_cluster_is_no_session() -> None:
    with pytest.raises(TypeError, match=r"Recovery was given a Cluster, and tells of an sd\.Session"):
        sw.Recovery(sd.Cluster({"worker": 1}))  # pyright: ignore[reportArgumentType]
