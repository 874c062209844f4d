"""How variables are read from outside of steps: whole, by device, and who is told."""

from __future__ import annotations

import numpy as np

import simdist as sd


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
