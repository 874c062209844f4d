"""Functions that wait, called for each leaf of a tree: as the process would end where they do so in C++, a failure has no report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras


def test_mains_wait_for_each_other_while_keras_maps_trees() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            metrics = {name: keras.metrics.Sum() for name in "ab"}
            layer = keras.layers.SimpleRNN(2, stateful=True)
            layer.build((3, 1, 1))
        metrics["b"].update_state(2.0)
        counted = {name: metric.variables[0] for name, metric in metrics.items()}
        return keras.tree.map_structure(lambda state: state.numpy(), (counted, layer.states))

    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(main)
        run.join()
    for main_of in ("worker:0", "worker:1"):
        counted, (state,) = run.results[main_of]
        assert counted == {"a": 0.0, "b": 2.0}
        assert state.shape == (3, 2) and not state.any()


def test_trees_are_mapped_as_by_keras() -> None:
    tree = {"a": [1, None], "b": (2,)}
    assert keras.tree.map_structure(lambda one, other: (one, other), tree, tree) == {"a": [(1, 1), (None, None)], "b": ((2, 2),)}
    assert keras.tree.map_structure(lambda one: one + 1, {"a": [1, None]}, none_is_leaf=False) == {"a": [2, None]}
    assert keras.tree.map_structure_up_to([0, 0], len, [[1, 2], [3]]) == [2, 1]
    assert keras.tree.map_shape_structure(np.prod, {"a": (2, 3)}) == {"a": 6}
    with pytest.raises(ValueError, match="same nested structure"):
        keras.tree.map_structure(lambda one, other: one, [1], [[1]])
    with pytest.raises(ValueError, match="mismatch"):
        keras.tree.map_structure(lambda one, other: one, [1], [1, 2])
