"""`lazy_rows=True` says where gradients never travel as rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import DenseUpdateWarning

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "central, one device": lambda: sd.CentralStorageStrategy(["gpu:0"]),
    "central, two devices": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "mirrored, one device": lambda: sd.MirroredStrategy(1),
    "mirrored, two devices": lambda: sd.MirroredStrategy(2),
}


def trained(strategy: Any, looks_up: bool = True, **options: Any) -> np.ndarray:
    """A table of ones, after two steps with momentum that look up other rows."""
    with strategy.scope():
        table = sd.Variable(np.ones((1000, 4), np.float32), name="table")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9, **options), lazy_rows=True)

    def replica(ids: Any) -> None:
        rows: Any = (lambda: sd.embedding_lookup(table, ids)) if looks_up else (lambda: table.value)
        _, (gradient,) = sd.value_and_grad(lambda: rows().sum(), [table])()
        optimizer.apply_gradients([(gradient, table)])

    step = sd.function(lambda ids: strategy.run(replica, args=(ids,)))
    served = isinstance(strategy, sd.ParameterServerStrategy)
    coordinator = sd.ClusterCoordinator(strategy) if served else None
    for ids in (np.array([1, 2]), np.array([3, 4])):
        step(ids) if coordinator is None else coordinator.schedule(step, args=(ids,)).fetch()
    return table.numpy()


@pytest.mark.parametrize("name", STRATEGIES)
def test_where_rows_do_not_stay_it_says_so_once(name: str) -> None:
    strategy = STRATEGIES[name]()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        table = trained(strategy)
    stays = bool(np.isclose(table[1, 0], 1.0 - 0.1 * strategy.num_replicas_in_sync))
    assert stays == ("central" not in name)
    said = [warning for warning in found if warning.category is DenseUpdateWarning]
    assert [str(warning.message).startswith("lazy_rows=True has no effect on table") for warning in said] == [True] * (not stays)


@pytest.mark.parametrize("kind", ["one device", "mirrored, two devices", "parameter servers"])
@pytest.mark.parametrize("options", [{}, {"global_clipnorm": 100.0}], ids=["plain", "clipped"])
def test_where_sums_of_rows_are_clipped_it_says_so_once(kind: str, options: dict[str, Any]) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster, mode="sync") if kind == "parameter servers" else STRATEGIES[kind]()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        table = trained(strategy, **options)
    stays = bool(np.isclose(table[1, 0], 1.0 - 0.1 * strategy.num_replicas_in_sync))
    said = [str(warning.message) for warning in found if warning.category is DenseUpdateWarning]
    assert stays == (not options)
    assert ["no effect on table" in message and "clips" in message for message in said] == [True] * len(options)


def test_without_lookups_there_is_nothing_to_say() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DenseUpdateWarning)
        trained(sd.OneDeviceStrategy(), looks_up=False)


SUMS_OF_STEPS: dict[str, Callable[[], Any]] = {
    "Keras": lambda: keras.optimizers.SGD(1.0, gradient_accumulation_steps=2),
    "optax.MultiSteps": lambda: optax.MultiSteps(optax.sgd(1.0), 2).gradient_transformation(),
    "optax.apply_every": lambda: optax.chain(optax.sgd(0.5), optax.apply_every(2)),
}


@pytest.mark.parametrize("name", SUMS_OF_STEPS)
def test_where_gradients_of_several_steps_are_added_up_those_of_all_rows_count(name: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        table, optimizer = sd.Variable(np.ones((100, 2), np.float32), name="table"), sd.Optimizer(SUMS_OF_STEPS[name](), lazy_rows=True)

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    with pytest.warns(DenseUpdateWarning, match="lazy_rows=True has no effect on table: the optimizer adds up the gradients of several"):
        for row in (0, 1):  # the sum is applied in the second step, which looks up another row
            coordinator.schedule(step, args=(np.array([row]),))
        coordinator.join()
    assert table.numpy()[:3, 0].tolist() == [0.5, 0.5, 1.0]


def test_of_one_replica_it_is_said_once_that_several_steps_are_added_up() -> None:
    with sd.OneDeviceStrategy().scope():
        table, optimizer = sd.Variable(np.ones((100, 2), np.float32), name="table"), sd.Optimizer(SUMS_OF_STEPS["Keras"](), lazy_rows=True)

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    with pytest.warns(DenseUpdateWarning) as found:
        step(np.array([0]))
        step(np.array([1]))
    assert table.numpy()[:3, 0].tolist() == [0.5, 0.5, 1.0]
    assert len(found) == 1 and "adds up" in str(found[0].message)


def test_tables_of_which_no_gradients_are_added_up_keep_their_rows() -> None:
    rules = {"lazy": optax.sgd(0.1, momentum=0.9), "summed": SUMS_OF_STEPS["optax.MultiSteps"]()}
    with sd.OneDeviceStrategy().scope():
        table, w = sd.Variable(np.ones((100, 2), np.float32), name="table"), sd.Variable(1.0)
        optimizer = sd.Optimizer(optax.multi_transform(rules, ["lazy", "summed"]), lazy_rows=True)

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum() + w.value, [table, w])()
        optimizer.apply_gradients(zip(gradients, [table, w], strict=True))

    with warnings.catch_warnings():
        warnings.simplefilter("error", DenseUpdateWarning)
        step(np.array([0]))
        step(np.array([1]))
    assert np.allclose(table.numpy()[:3, 0], [0.9, 0.9, 1.0]) and float(w.value) == 0.0
