"""A table that is cut along its columns: no server has a whole row, so lookups read all of it, and say so where it is large."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import DenseReadWarning


@pytest.mark.parametrize("rows", [1 << 16, 1 << 10])
@pytest.mark.parametrize("by_keras", [False, True])
def test_a_large_table_that_is_cut_along_its_columns_is_read_as_a_whole_with_a_warning(by_keras: bool, rows: int) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, numerics="off"), lambda shape, dtype: [1, 2])
    with strategy.scope():
        table = (
            keras.Variable(np.zeros((rows, 64), np.float32), name="table") if by_keras else sd.Variable(np.zeros((rows, 64)), name="table")
        )
    step = sd.function(lambda ids: (keras.ops.take(table, ids, axis=0) if by_keras else sd.embedding_lookup(table, ids)).sum())
    coordinator = sd.ClusterCoordinator(strategy)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        coordinator.schedule(step, args=(np.array([1, 5]),))
        coordinator.join()
    texts = [str(one.message) for one in found if one.category is DenseReadWarning]
    assert len(texts) == (rows * 64 * 4 >= 16 << 20) and all("has cut 'table' along axis 1" in text for text in texts)
    assert sum(record.bytes_read for record in strategy.traffic()) == rows * 64 * 4
