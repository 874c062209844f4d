"""Every strategy of replicas is a layout that an input can be shared by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import simdist as sd
from simdist.input import DistributedDataset
from simdist.input.layout import ReplicaLayout
from tests.input.layouts import Layout


@pytest.mark.parametrize("make", [lambda: sd.MirroredStrategy(3), sd.OneDeviceStrategy, lambda: sd.CentralStorageStrategy(2)])
def test_strategy_says_what_a_layout_says(make: Callable[[], ReplicaLayout]):
    strategy = make()
    same = Layout(1, strategy.num_replicas_in_sync)
    assert (strategy.num_workers, strategy.worker_index, strategy.launched) == (same.num_workers, same.worker_index, same.launched)
    assert strategy.ranks == same.ranks and strategy.engine.now == 0.0


def test_dataset_is_shared_alike_under_a_strategy_and_under_a_bare_layout():
    dataset = sd.Dataset.range(7).batch(5)
    strategy = sd.MirroredStrategy(3)
    from_strategy = [[np.asarray(part).tolist() for part in element.values] for element in strategy.distribute_dataset(dataset)]
    from_layout = [[np.asarray(part).tolist() for part in element.values] for element in DistributedDataset(Layout(1, 3), dataset)]
    assert from_strategy == from_layout == [[[0, 1], [2, 3], [4]], [[5], [6], []]]
