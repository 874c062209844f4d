"""How variables are read from outside of steps: whole, by device, and who is told."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.errors import UnavailableError


def test_each_read_from_outside_is_reported_with_the_name_of_its_variable() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v, w = sd.Variable(1.0, name="v"), sd.Variable(2.0, name="w")
    seen: list[str] = []
    strategy.store.observed = seen.append
    assert (float(v.numpy()), float(w.numpy())) == (1.0, 2.0)
    assert seen == ["v", "w"]
    assert [float(part) for part in strategy.local_results(v)] == [1.0, 1.0]  # equal copies are one cell
    assert seen == ["v", "w", "v"]
    strategy.store.compute([v, w])  # nobody has seen a number by that
    assert seen == ["v", "w", "v"]


def test_shards_are_read_as_one_array_along_their_rows() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}), sd.FixedShardsPartitioner(3))
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    with strategy.scope():
        v = sd.Variable(rows)
    assert len(v.placement.cells) == 3
    np.testing.assert_array_equal(v.numpy(), rows)


def test_what_decides_after_a_read_depends_on_values_in_the_eyes_of_the_trace() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(1.0)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(lambda: None).fetch()
    assert not cluster.trace.value_dependent
    v.numpy()
    assert not cluster.trace.value_dependent  # nothing has happened since
    coordinator.schedule(lambda: None).fetch()
    assert cluster.trace.value_dependent


@pytest.mark.parametrize("how", ["assign_add", "assign"])
def test_a_change_of_a_variable_of_which_a_part_is_away_changes_no_part(how: str) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2), recovery="replica")
    with strategy.scope():
        v = sd.Variable(np.zeros(4, np.float32))
    sd.ClusterCoordinator(strategy)
    cluster.faults.crash("ps:1", at=0.5, restart_after=3.0)
    sd.sleep(1.0, cluster)
    with pytest.raises(UnavailableError, match="does not have its variables back yet"):
        getattr(v, how)(np.full(4, 5.0, np.float32))
    sd.sleep(4.0, cluster)
    assert v.numpy().tolist() == [0.0] * 4
    getattr(v, how)(np.full(4, 5.0, np.float32))
    assert v.numpy().tolist() == [5.0] * 4
