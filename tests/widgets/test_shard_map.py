from __future__ import annotations

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import simdist as sd
import simdist_widgets as sw
from simdist import keras
from simdist_widgets.shard_figure import range_text, shard_figure


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
    assert {"100 B · 76 %", "32 B · 24 %"} <= {text.get_text() for text in ax.texts}


UNEVEN = [
    record("chief:0", 4, variable="count", kind="metric"),
    *(record("ps:0", 100, variable=f"slot{number}", kind="slot") for number in range(9)),
    record("ps:0", 24_000),
    record("ps:1", 31_500),
]


def test_areas_of_the_picture_are_bytes_however_many_shards_a_task_has() -> None:
    ax = sw.ShardMap(UNEVEN).picture().axes[0]
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([0.62] * len(UNEVEN))
    rows: dict[float, float] = {}
    for bar in ax.patches:
        rows[bar.get_y()] = rows.get(bar.get_y(), 0) + bar.get_width()
    assert list(rows.values()) == [4, 24_900, 31_500]


def test_chief_without_parameters_is_no_part_of_the_balance() -> None:
    shards = sw.ShardMap(UNEVEN)
    assert shards.header["balanced"] == ["ps:0", "ps:1"]
    assert shards.picture().axes[0].get_title("left") == "the fullest task holds 1.12 times the mean (the chief apart)"


def test_chief_that_holds_parameters_and_a_chief_alone_count() -> None:
    assert sw.ShardMap([*UNEVEN, record("chief:0", 8)]).header["balanced"] == ["chief:0", "ps:0", "ps:1"]
    alone = sw.ShardMap(UNEVEN[:1])
    assert alone.header["balanced"] == ["chief:0"]
    assert alone.picture().axes[0].get_title("left") == ""


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


def test_a_variable_that_is_partitioned_along_another_axis_shows_columns() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), lambda shape, dtype: [1, 2])
    with strategy.scope():
        sd.Variable([[1.0, 2.0, 3.0]], name="table")
    shards = sw.ShardMap(strategy).header["shards"]
    assert [(shard["axis"], shard["row_start"], shard["row_stop"]) for shard in shards] == [(1, 0, 2), (1, 2, 3)]
    assert [range_text(shard) for shard in shards] == ["[:, 0:2]", "[:, 2:3]"]
    assert range_text({"row_start": 0, "row_stop": 4}) == "[0:4]"


def namesakes(strategy: Any) -> tuple[int, list[tuple[str, int]]]:
    """Of three variables, two of one name, with a slot each: how many a map counts, and the namesakes of its shards."""
    with strategy.scope():
        variables = [sd.Variable(np.zeros((4, 2), np.float32), name=name) for name in ("w", "w", "v")]
        sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9)).build(variables)
    header = sw.ShardMap([record for record in strategy.placements() if record.variable in ("w", "v") or record.slot_of]).header
    return header["num_variables"], sorted((shard["variable"], shard["namesake"]) for shard in header["shards"])


@pytest.mark.parametrize("shards", [1, 2])
def test_variables_of_one_name_are_two_and_their_slots_too(shards: int) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    count, found = namesakes(sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(shards)))
    assert count == 6
    assert [number for name, number in found if name == "w"] == [0] * shards + [1] * shards
    assert sum(number for _, number in found) == 2 * shards, "one variable and its slot are second ones"


def test_copies_of_a_variable_are_one_variable() -> None:
    strategy = sd.MirroredStrategy(3, cluster=sd.Cluster({"worker": 1}))
    count, found = namesakes(strategy)
    assert count == 6 and [number for name, number in found if name == "w"] == [0] * 3 + [1] * 3


NAME = r"scale$\frac$and\$"


@pytest.mark.parametrize("tasks", [1, 50])
def test_dollar_signs_in_names_begin_no_formula(tasks: int) -> None:
    records = [record(f"{NAME}:{number}", 64, variable=NAME, kind=NAME) for number in range(tasks)]
    assert sw.ShardMap(records).png().startswith(b"\x89PNG")
    texts = [text.get_text() for text in sw.ShardMap(records).picture().findobj(Text) if NAME in text.get_text() and text.get_visible()]
    assert len(texts) == (3 if tasks == 1 else 5), "the block, the task and the legend; or a task for each row of cells"


@pytest.mark.parametrize("tasks", [1, 60, 1000])
def test_the_figure_of_very_many_tasks_fits_a_page_and_names_do_not_overlap(tasks: int) -> None:
    names = [f"ps:{number}" for number in range(tasks)]
    figure = shard_figure(names, [vars(record(name)) for name in names], names)
    figure.canvas.draw()
    assert figure.get_size_inches()[1] <= 15.0
    (ax,) = figure.axes
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(boxes))
    assert len(ax.patches) == tasks and [bar.get_width() for bar in ax.patches] == [64] * tasks


@pytest.mark.parametrize("tasks", [41, 1000, pytest.param(12_000, marks=pytest.mark.exhaustive)])
def test_a_heat_map_of_very_many_tasks_fits_a_page_and_names_do_not_overlap(tasks: int) -> None:
    figure = sw.ShardMap([record(f"ps:{number}") for number in range(tasks)]).picture()
    figure.canvas.draw()
    assert figure.get_size_inches()[1] <= 16.0
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert boxes and all(upper.y0 >= lower.y1 - 1 for upper, lower in pairwise(boxes))


def test_more_shards_than_can_be_pointed_at_are_one_cell_for_each_task() -> None:
    shards = sw.ShardMap([record(f"ps:{number % 3}", shard=number, num_shards=20_000) for number in range(20_000)])
    assert shards.header["shards"] == [] and len(json.dumps(shards.header)) < 5000
    assert [cell["bytes"] for cell in shards.header["heat"]["rows"][0]] == [6667 * 64, 6667 * 64, 6666 * 64]
    assert repr(shards) == "ShardMap(3 tasks, 1 variable, 20000 shards, 1280000 bytes)"
    shards.picture().canvas.draw()
