from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import simdist_widgets as sw
from simdist_widgets.color_ramp import ramp_color
from simdist_widgets.heat_map import HEAT_MAP_FROM


def records(servers: int, shards: int = 1) -> list[SimpleNamespace]:
    fields = {"shape": (4, 4), "dtype": "float32", "num_shards": 1, "shard": 0, "row_start": 0, "row_stop": 4, "kind": "parameter"}
    return [
        SimpleNamespace(**fields, variable=f"v{shard}", task=f"ps:{server}", size_bytes=100 * (server + 1))
        for server in range(servers)
        for shard in range(shards)
    ]


@pytest.mark.parametrize("tasks", [HEAT_MAP_FROM - 1, HEAT_MAP_FROM, 100, 400])
def test_very_many_tasks_are_a_heat_map(tasks: int) -> None:
    shown = sw.ShardMap(records(tasks))
    heat = shown.header["heat"]
    assert (heat is not None) == (tasks >= HEAT_MAP_FROM)
    assert bool(shown.header["shards"]) == (heat is None)
    if heat:
        assert [cell["task"] for row in heat["rows"] for cell in row] == [f"ps:{number}" for number in range(tasks)]
        assert len(heat["rows"]) <= heat["columns"]


def test_hundred_servers_are_always_a_heat_map() -> None:
    assert HEAT_MAP_FROM <= 100


def test_cell_has_exact_numbers_and_a_colour_by_its_bytes() -> None:
    cells = [cell for row in sw.ShardMap(records(100, shards=7)).header["heat"]["rows"] for cell in row]
    assert (cells[9]["bytes"], cells[9]["num_shards"]) == (7000, 7)
    assert cells[9]["share"] == pytest.approx(7000 / sum(cell["bytes"] for cell in cells))
    assert cells[99]["color"] == ramp_color(1.0)
    assert cells[49]["color"] == ramp_color(0.5)
    assert cells[9]["largest"] == [[f"v{shard}", 1000] for shard in range(5)]


def test_every_job_begins_a_row_and_a_chief_without_parameters_has_no_share() -> None:
    chief = SimpleNamespace(**{**vars(records(1)[0]), "task": "chief:0", "kind": "metric"})
    rows = sw.ShardMap([chief, *records(100)]).header["heat"]["rows"]
    assert [row[0]["task"] for row in rows][:3] == ["chief:0", "ps:0", "ps:20"]
    assert rows[0][0]["share"] is None


def test_colours_grow_darker() -> None:
    light = [sum(bytes.fromhex(ramp_color(share / 20)[1:])) for share in range(21)]
    assert light == sorted(light, reverse=True)
    assert len(set(light)) == 21


def test_four_hundred_servers_with_many_variables_stay_small() -> None:
    shown = sw.ShardMap(records(400, shards=20))
    assert len(json.dumps(shown.header)) < 200_000
    assert repr(shown).startswith("ShardMap(400 tasks, 20 variables, 8000 shards")
