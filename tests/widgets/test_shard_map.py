from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import simdist_widgets as sw


def record(task: str, size_bytes: int = 64, **changes: Any) -> SimpleNamespace:
    fields = {"variable": "kernel", "shape": (4, 4), "dtype": "float32", "shard": 0, "num_shards": 1}
    fields |= {"row_start": 0, "row_stop": 4, "kind": "parameter"}
    return SimpleNamespace(**fields | {"task": task, "size_bytes": size_bytes} | changes)


RECORDS = [
    record("ps:10", 32, shard=1, num_shards=2, row_start=2),
    record("ps:2", 32, num_shards=2, row_stop=2),
    record("ps:2", 4, variable="count", shape=(), kind="metric"),
    record("ps:2", 64, variable="kernel/momentum", kind="slot"),
]


def test_repr_is_one_line_of_counts() -> None:
    assert repr(sw.ShardMap(RECORDS)) == "ShardMap(2 tasks, 3 variables, 4 shards, 132 bytes)"


def test_strategy_is_asked_for_its_placements() -> None:
    strategy = SimpleNamespace(placements=lambda: RECORDS)
    assert sw.ShardMap(strategy).header == sw.ShardMap(RECORDS).header


def test_tasks_are_in_order_of_their_numbers() -> None:
    assert sw.ShardMap(RECORDS).header["tasks"] == ["ps:2", "ps:10"]


def test_parameters_come_before_slots_and_metrics() -> None:
    header = sw.ShardMap(RECORDS).header
    assert [shard["kind"] for shard in header["shards"]] == ["parameter", "parameter", "slot", "metric"]
    assert [kind["name"] for kind in header["kinds"]] == ["parameter", "slot", "metric"]


def test_records_satisfy_the_protocol() -> None:
    assert isinstance(RECORDS[0], sw.PlacementRecord)
    assert not isinstance(SimpleNamespace(variable="kernel"), sw.PlacementRecord)


def test_picture_has_a_bar_per_shard_and_the_bytes_of_each_task() -> None:
    ax = sw.ShardMap(RECORDS).picture().axes[0]
    assert [bar.get_width() for bar in ax.patches] == [32, 64, 4, 32]
    assert {"100 B", "32 B"} <= {text.get_text() for text in ax.texts}


def test_mime_bundle_has_text_and_picture() -> None:
    data, _ = sw.ShardMap(RECORDS)._repr_mimebundle_()
    assert data["text/plain"] == repr(sw.ShardMap(RECORDS))
    assert "image/png" in data


def test_no_variables_is_an_empty_map() -> None:
    empty = sw.ShardMap([])
    assert repr(empty) == "ShardMap(0 tasks, 0 variables, 0 shards, 0 bytes)"
    assert empty.png()


def test_wrong_argument_is_told_what_to_pass() -> None:
    with pytest.raises(TypeError, match=r"expected a strategy with placements\(\) .* got int; pass the strategy"):
        sw.ShardMap(3)


def test_record_without_a_field_is_told_which() -> None:
    broken = SimpleNamespace(variable="kernel", shape=(4,), dtype="float32", shard=0, num_shards=1, task="ps:0")
    with pytest.raises(TypeError, match=r"has no row_start, row_stop, size_bytes, kind"):
        sw.ShardMap([broken])
