"""The picture of a cluster shows the present moment, of a session that of its present run."""

from __future__ import annotations

import pytest

import simdist as sd
from session_programs import CRASH, session_of
from simdist.hardware import ethernet_10g
from simdist_widgets.topology import BUSY, COLORS, IDLE, Topology


def test_it_follows_a_session_also_to_a_run_that_began_again() -> None:
    session = session_of("coordinator")
    topology = Topology(session)
    session.advance(until=0.0005)
    session.inject(CRASH)
    assert "idle" in repr(Topology(sd.Cluster({"worker": 1}))) and topology.state["now_s"] == 0.0
    topology.refresh()
    place = session.cluster.tasks.index("worker:1")
    session.advance(by=0.0)
    topology.refresh()
    assert (topology.state["now_s"], topology.state["tasks"][place]) == (0.0005, "restarting")
    session.rewind(0.0001)
    topology.refresh()
    assert topology.state["now_s"] == 0.0001 and "restarting" not in topology.state["tasks"]


@pytest.mark.parametrize(
    "cluster",
    [
        sd.Cluster({"worker": 2, "ps": 2}),
        sd.Cluster({"worker": 7}, network=ethernet_10g.in_racks(4)),
        sd.Cluster({"worker": 3}, network=ethernet_10g.as_torus((2, 2))),
        sd.Cluster({"worker": 250}),
    ],
)
def test_static_picture_has_a_mark_for_each_task(cluster: sd.Cluster) -> None:
    topology = Topology(cluster)
    axes = topology.picture().axes[0]
    assert len(axes.collections) == len(cluster.tasks) and len(axes.lines) == len(topology.layout_of_cluster["links"])
    assert len(axes.texts) == (0 if topology.layout_of_cluster["is_grid"] else len(cluster.tasks))


def test_colors_tell_trouble_from_work_and_work_from_rest() -> None:
    assert BUSY != IDLE and not {BUSY, IDLE} & set(COLORS.values())


def test_what_is_no_cluster_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a Cluster or a Session"):
        Topology({"worker": 1})  # type: ignore[arg-type]


def test_each_task_has_its_state_and_its_rack_also_after_workers_have_joined_and_left() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 2}, network=ethernet_10g.in_racks(2))
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    topology = Topology(cluster)
    coordinator.add_worker()
    coordinator.remove_worker("worker:1")
    topology.refresh()
    shown = {
        task["name"]: (state, task["rack"])
        for task, state in zip(topology.layout_of_cluster["tasks"], topology.state["tasks"], strict=True)
    }
    assert shown["ps:0"] == ("idle", 1) and shown["ps:1"] == ("idle", 2) and shown["worker:2"] == ("idle", 2)
    assert len(topology.picture().axes[0].collections) == len(shown) == 6
