"""A shard map by traffic, version and staleness: colours on one scale, facts in cards, and the default as it was."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import simdist as sd
import simdist_widgets as sw
from simdist.errors import InvalidArgumentError
from simdist_widgets.color_ramp import ramp_color
from simdist_widgets.heat_map import HEAT_MAP_FROM
from simdist_widgets.shard_colors import UNKNOWN_COLOR, ink_on

FIELDS = {"shape": (4,), "dtype": "float32", "shard": 0, "num_shards": 1, "row_start": 0, "row_stop": 4, "size_bytes": 16}


def record(task: str, variable: str = "v", **traffic: Any) -> SimpleNamespace:
    numbers = {"reads": 0, "updates": 0, "bytes_read": 0, "bytes_updated": 0, "version": 0, "staleness": None} | traffic
    return SimpleNamespace(**FIELDS, **numbers, task=task, variable=variable, kind="parameter")


RECORDS = [
    record("ps:0", reads=2, bytes_read=2000, updates=3, bytes_updated=48, version=3, staleness=0.5),
    record("ps:1", reads=1, bytes_read=16, version=6),
]


def colors(color_by: str) -> list[str]:
    return [shard["color"] for shard in sw.ShardMap(RECORDS, color_by=color_by).header["shards"]]


def test_colours_are_shares_of_the_greatest_value() -> None:
    assert colors("traffic") == [ramp_color(1.0), ramp_color(16 / 2048)]
    assert colors("version") == [ramp_color(0.5), ramp_color(1.0)]
    assert colors("staleness") == [ramp_color(1.0), UNKNOWN_COLOR]


def test_scale_says_what_it_shows_and_where_it_ends() -> None:
    scales = {color_by: sw.ShardMap(RECORDS, color_by=color_by).header["scale"] for color_by in ("traffic", "version", "staleness")}
    assert [scale["ends"] for scale in scales.values()] == [["0 B", "2.0 KiB"], ["0", "6"], ["0.00", "0.50"]]
    assert [scale["unknown"] for scale in scales.values()] == [None, None, UNKNOWN_COLOR]


def test_cards_have_the_traffic() -> None:
    shard = sw.ShardMap(RECORDS, color_by="version").header["shards"][0]
    assert dict(shard["facts"]) == {"reads": "2 (2.0 KiB)", "updates": "3 (48 B)", "version": "3", "staleness at its server": "0.50"}


def test_cards_name_the_hottest_rows() -> None:
    rows = (SimpleNamespace(row=1400, reads=1200, updates=7), SimpleNamespace(row=3, reads=2, updates=0))
    hot, cold = sw.ShardMap([record("ps:0", hot_rows=rows), record("ps:1", hot_rows=())], color_by="traffic").header["shards"]
    assert dict(hot["facts"])["hottest rows"] == "1,400 (1,200 reads, 7 updates), 3 (2 reads, 0 updates)"
    assert "hottest rows" not in dict(cold["facts"])


def test_the_default_holds_nothing_of_traffic() -> None:
    header = sw.ShardMap(RECORDS).header
    assert "scale" not in header
    assert not {"color", "value", "facts", "reads"} & set(header["shards"][0])


def test_a_picture_has_the_colours_of_the_view_and_a_scale() -> None:
    figure = sw.ShardMap(RECORDS, color_by="staleness").picture()
    ax, bar = figure.axes
    assert [patch.get_facecolor()[:3] for patch in ax.patches] == [
        tuple(channel / 255 for channel in bytes.fromhex(color[1:])) for color in colors("staleness")
    ]
    assert [label.get_text() for label in bar.get_xticklabels()] == ["0.00", "0.50"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["none"]


def test_a_heat_map_has_the_figure_of_each_task() -> None:
    records = [record(f"ps:{task}", f"v{part}", version=task, bytes_read=task) for task in range(HEAT_MAP_FROM) for part in range(2)]
    for color_by, last in (("traffic", 2 * (HEAT_MAP_FROM - 1)), ("version", HEAT_MAP_FROM - 1)):
        shown = sw.ShardMap(records, color_by=color_by)
        cells = [cell for row in shown.header["heat"]["rows"] for cell in row]
        assert (cells[0]["color"], cells[-1]["color"]) == (ramp_color(0.0), ramp_color(1.0))
        assert cells[-1]["figure"][1].split()[0] == str(last)
        assert shown.picture().axes[1].get_xlabel() == shown.header["heat"]["scale"]["title"]
        json.dumps(shown.header)


def test_a_strategy_is_asked_for_its_traffic() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        hot, _ = sd.Variable([0.0, 0.0], name="hot"), sd.Variable([0.0, 0.0], name="cold")
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: hot.assign_add(hot.value)))
    coordinator.join()
    shards = sw.ShardMap(strategy, color_by="traffic").header["shards"]
    assert [(shard["variable"], shard["value"], shard["color"]) for shard in shards] == [
        ("hot", 16, ramp_color(1.0)),
        ("cold", 0, ramp_color(0.0)),
    ]


def test_text_can_be_read_on_every_colour() -> None:
    assert [ink_on(ramp_color(share / 4)) for share in range(5)] == ["#101418"] * 3 + ["#ffffff"] * 2


def test_another_figure_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="color_by is 'heat'; expected 'kind', 'traffic', 'version', 'staleness'"):
        sw.ShardMap(RECORDS, color_by="heat")


def test_records_without_traffic_are_refused() -> None:
    bare = SimpleNamespace(**FIELDS, task="ps:0", variable="v", kind="parameter")
    with pytest.raises(TypeError, match=r"need records with reads, .* pass a ParameterServerStrategy"):
        sw.ShardMap([bare], color_by="traffic")
