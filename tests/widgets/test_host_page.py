from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import simdist_widgets as sw
from simdist.trace import Trace


def export(tmp_path: Path, *sections: tuple[str, Any]) -> str:
    return sw.export_page(tmp_path / "page.html", "Report", sections).read_text()


def test_facts_become_a_table_with_numbers_that_can_be_read(tmp_path: Path) -> None:
    text = export(tmp_path, ("Numbers", {"accuracy": 0.951234567, "bytes": 1234567, "seed": "0", "by_job": {"ps": 2}}))
    assert "<h2>Numbers</h2>" in text
    assert '<th>accuracy</th><td class="number">0.951235</td>' in text
    assert '<td class="number">1,234,567</td>' in text
    assert "<td>ps 2</td>" in text
    assert '<table class="facts">' in text and ".facts td { text-align: left; }" in text


def test_facts_of_facts_become_a_table_with_columns(tmp_path: Path) -> None:
    text = export(tmp_path, ("", {"ps:0": {"sent": 1, "received": 2}, "ps:1": {"sent": 3}}))
    assert "<tr><th></th><th>sent</th><th>received</th></tr>" in text
    assert '<tr><th>ps:1</th><td class="number">3</td><td></td></tr>' in text
    assert 'class="facts"' not in text


def test_text_is_escaped_and_cut_into_paragraphs(tmp_path: Path) -> None:
    text = export(tmp_path, ("A <b>", "one <i>\n\ntwo"))
    assert "<h2>A &lt;b&gt;</h2>" in text
    assert "<p>one &lt;i&gt;</p>\n<p>two</p>" in text


def test_object_that_offers_markup_is_inserted_as_it_is(tmp_path: Path) -> None:
    text = export(tmp_path, ("", SimpleNamespace(_repr_html_=lambda: "<em>markup</em>")))
    assert "<em>markup</em>" in text


def test_several_widgets_share_one_script_and_have_states_of_their_own(tmp_path: Path) -> None:
    text = export(tmp_path, ("Timeline", sw.Timeline(Trace())), ("Shards", sw.ShardMap([])), ("Again", sw.ShardMap([])))
    assert text.count("<script>") == 1
    states = ("simdist-state-0", "simdist-state-1", "simdist-state-2")
    assert [text.count(f'id="{state}"') for state in states] == [1, 1, 1]


def test_page_holds_the_scripts_of_its_widgets_only(tmp_path: Path) -> None:
    sizes = [len(export(tmp_path, ("", widget))) for widget in (sw.ShardMap([]), sw.Timeline(Trace()))]
    static = Path(sw.__file__).parent / "static"
    shards, timeline = (len((static / f"page_{name}.js").read_text()) for name in ("shard_map", "timeline"))
    assert sizes[1] - sizes[0] > 0.8 * (timeline - shards)


def test_page_without_widgets_has_no_script(tmp_path: Path) -> None:
    assert "<script" not in export(tmp_path, ("", "text"))


def test_unknown_content_is_told_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a section holds int; pass a widget, a str, a dict of facts"):
        export(tmp_path, ("", 3))
