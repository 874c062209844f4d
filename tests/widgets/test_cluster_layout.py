"""Where tasks stand: inside the picture, no two at one place, joined by lines that there are."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples
from simdist.hardware import ethernet_10g
from simdist_widgets.cluster_layout import MOST_SINGLE, cluster_layout

specs = st.fixed_dictionaries(
    {"worker": st.integers(1, 210)}, optional={"ps": st.integers(1, 60), "evaluator": st.integers(1, 40), "other": st.integers(1, 30)}
)
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=5).filter(lambda shape: 2 <= math.prod(shape) <= 250)


def check(cluster: sd.Cluster) -> None:
    layout = cluster_layout(cluster)
    assert json.loads(json.dumps(layout)) == layout == cluster_layout(cluster)
    places = {(task["x"], task["y"]) for task in layout["tasks"]}
    assert len(places) == len(cluster.tasks), "no two at one place"
    assert all(0.0 <= x <= 1.0 and 0.0 <= y <= 1.0 for x, y in places | {(hub["x"], hub["y"]) for hub in layout["hubs"]})
    assert [task["name"] for task in layout["tasks"]] == cluster.tasks
    assert layout["is_grid"] == (len(cluster.tasks) > MOST_SINGLE)
    links = {link.name: link.bandwidth_bytes_per_s for link in cluster.world.fabric.links()}
    names = {part["name"] for part in [*layout["tasks"], *layout["hubs"]]}
    for link in layout["links"]:
        assert {link["source"], link["target"]} <= names and link["bandwidth_bytes_per_s"] in links.values()


@examples(60)
@given(specs, st.integers(0, 40))
def test_any_cluster_fits_into_its_picture(spec: dict[str, int], tasks_per_rack: int) -> None:
    check(sd.Cluster(spec, network=ethernet_10g.in_racks(tasks_per_rack) if tasks_per_rack else ethernet_10g))


@examples(40)
@given(shapes)
def test_any_torus_fits_into_its_picture(shape: list[int]) -> None:
    check(sd.Cluster({"worker": math.prod(shape) - 1}, network=ethernet_10g.as_torus(tuple(shape))))


def test_servers_stand_above_workers_and_racks_side_by_side() -> None:
    at = {task["name"]: task for task in cluster_layout(sd.Cluster({"worker": 3, "ps": 2}))["tasks"]}
    assert at["ps:0"]["y"] < at["worker:0"]["y"] and at["chief:0"]["x"] < at["worker:0"]["x"] < at["worker:1"]["x"]
    racks = cluster_layout(sd.Cluster({"worker": 7}, network=ethernet_10g.in_racks(4)))
    assert [task["rack"] for task in racks["tasks"]] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {link["source"] for link in racks["links"] if link["target"] == "spine"} == {"rack:0", "rack:1"}


def test_neighbours_of_a_torus_stand_side_by_side_and_lines_join_them() -> None:
    cluster = sd.Cluster({"worker": 7}, network=ethernet_10g.as_torus((2, 4)))  # the chief is a node, too
    layout = cluster_layout(cluster)
    at = {task["name"]: (task["x"], task["y"]) for task in layout["tasks"]}
    assert at["worker:3"][1] == at["chief:0"][1] < at["worker:2"][1] and at["worker:3"][0] > at["worker:2"][0] == at["chief:0"][0]
    lines = {(link["source"], link["target"]) for link in layout["links"]}
    assert ("chief:0", "worker:3") in lines and ("worker:2", "worker:3") not in lines and len(lines) == 4 + 6


def test_of_a_torus_of_three_axes_the_lines_of_two_are_drawn_and_who_is_no_node_stands_beside_it() -> None:
    layout = cluster_layout(sd.Cluster({"worker": 8}, network=ethernet_10g.as_torus((2, 2, 2))))
    assert sorted(link["name"][-2:] for link in layout["links"]) == ["x+"] * 4 + ["y+"] * 4
    x = {task["name"]: task["x"] for task in layout["tasks"]}
    assert x.pop("chief:0") < min(x.values())
