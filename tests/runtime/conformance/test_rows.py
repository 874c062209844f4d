"""Reads of rows and updates by gradients of rows, on every engine: the rows in the order asked, each server its own, each row once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

IDS = np.array([[6, 0, 4], [4, 4, 1]], np.int32)


@pytest.fixture(params=[{}, {"engine": "in_process"}, {"engine": "in_process", "isolated": True}], ids=["simulated", "here", "isolated"])
def strategy(request: pytest.FixtureRequest) -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, **request.param), sd.FixedShardsPartitioner(2))


def run(strategy: sd.ParameterServerStrategy, step: Any, *args: Any) -> Any:
    """What a step returns on a worker."""
    coordinator = sd.ClusterCoordinator(strategy)
    value = coordinator.schedule(step, args=args)
    coordinator.join()
    return value.fetch()


def table_in(strategy: sd.ParameterServerStrategy) -> sd.Variable:
    with strategy.scope():
        return sd.Variable(np.arange(22.0).reshape(11, 2), name="table")


def test_rows_are_in_the_order_of_the_ids(strategy: sd.ParameterServerStrategy) -> None:
    table = table_in(strategy)
    rows = run(strategy, sd.function(lambda ids: sd.embedding_lookup(table, ids)), IDS)
    assert np.asarray(rows).tolist() == table.numpy()[IDS].tolist()


def test_ids_may_be_computed_of_the_batch(strategy: sd.ParameterServerStrategy) -> None:
    table = table_in(strategy)
    rows = run(strategy, sd.function(lambda ids: sd.embedding_lookup(table, (ids * 3 + 1) % 11)), IDS)
    assert np.asarray(rows).tolist() == table.numpy()[(IDS * 3 + 1) % 11].tolist()


def test_gradients_of_duplicate_ids_are_added_up(strategy: sd.ParameterServerStrategy) -> None:
    table = table_in(strategy)
    before = table.numpy().copy()
    with strategy.scope():
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))

    @sd.function
    def step(ids: Any) -> Any:
        value, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return value

    assert float(run(strategy, step, IDS)) == before[IDS].sum()
    assert (before - table.numpy()).tolist() == [[float((row == IDS).sum())] * 2 for row in range(11)]


def test_an_id_that_is_no_row_is_an_error_of_the_closure(strategy: sd.ParameterServerStrategy) -> None:
    table = table_in(strategy)
    with pytest.raises(InvalidArgumentError, match="'table' asks for row 11; the table has 11 rows"):
        run(strategy, sd.function(lambda ids: sd.embedding_lookup(table, ids)), np.array([1, 11], np.int32))
