"""Rows of tables in rounds: the average of gradients of different rows is that of the dense gradients which they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.ledger import ledger as ledger_module
from simdist.ledger import plans

ROWS, WIDTH, WORKERS = 30, 2, 3
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.3),
    "adagrad": lambda: keras.optimizers.Adagrad(0.3),
    "momentum": lambda: keras.optimizers.SGD(0.3, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.3),
    "clipped": lambda: keras.optimizers.SGD(0.3, clipvalue=0.5),
}
START = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
WEIGHTS = np.array([1.5, -0.5], np.float32)


class Outcome(NamedTuple):
    """Table and weights of a run, and its cluster."""

    table: np.ndarray
    weights: np.ndarray
    cluster: sd.Cluster


def looked_up(table: sd.Variable, ids: Any) -> Any:
    return sd.embedding_lookup(table, ids)


def whole(table: sd.Variable, ids: Any) -> Any:
    return jnp.take(table.value, ids, axis=0)


def batches(rounds: int = 4, counts: Sequence[int] = (5, 2, 7)) -> list[np.ndarray]:
    """The ids of each closure, as many as its worker has; workers have some in common."""
    rng = np.random.default_rng(1)
    return [rng.integers(0, ROWS, counts[number % len(counts)]).astype(np.int32) for number in range(rounds * WORKERS)]


def train(
    optimizer: Callable[[], Any],
    ids: Sequence[np.ndarray],
    lookups: Sequence[Callable[[sd.Variable, Any], Any]] = (looked_up,),
    shards: int = 2,
    numerics: str = "deferred",
    lazy_rows: bool = False,
    faults: Callable[[sd.Cluster], object] = lambda cluster: None,
    **options: Any,
) -> Outcome:
    """Train a table with weights beside it; closure number n looks up by function n."""
    cluster = sd.Cluster({"worker": WORKERS, "ps": 2}, numerics=numerics)
    mode: Any = {"mode": "sync", **options}
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(shards), **mode)
    with strategy.scope():
        table, w = sd.Variable(START, name="table"), sd.Variable(WEIGHTS, name="w")
        rule = sd.Optimizer(optimizer(), lazy_rows=lazy_rows)

    def step_with(lookup: Callable[[sd.Variable, Any], Any]) -> Any:
        @sd.function(seconds=0.01)
        def step(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (lookup(table, ids) ** 2 @ w.value).sum(), [table, w])()
            rule.apply_gradients(zip(gradients, [table, w], strict=True))

        return step

    steps = [step_with(lookup) for lookup in lookups]
    coordinator = sd.ClusterCoordinator(strategy)
    faults(cluster)
    for number, numbers in enumerate(ids):
        coordinator.schedule(steps[number % len(steps)], args=(numbers,))
    coordinator.join()
    return Outcome(table.numpy(), w.numpy(), cluster)


def alone(optimizer: Any, ids: Sequence[np.ndarray]) -> tuple[Any, Any]:
    """Table and weights by Keras and JAX alone: each round changes them once, by the mean of its gradients."""
    values = [jnp.asarray(START), jnp.asarray(WEIGHTS)]
    variables = [keras.Variable(value) for value in values]
    optimizer.build(variables)
    state = [v.value for v in optimizer.variables]

    def loss(values: list[Any], numbers: Any) -> Any:
        return (jnp.take(values[0], numbers, axis=0) ** 2 @ values[1]).sum()

    for first in range(0, len(ids), WORKERS):
        each = [jax.grad(loss)(values, numbers) for numbers in ids[first : first + WORKERS]]
        mean = [sum(parts) / WORKERS for parts in zip(*each, strict=True)]
        values, state = optimizer.stateless_apply(state, mean, values)
    return np.asarray(values[0]), np.asarray(values[1])


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_round_averages_gradients_of_different_rows(name: str) -> None:
    ids = batches()
    rows, dense = train(OPTIMIZERS[name], ids), train(OPTIMIZERS[name], ids, [whole])
    assert rows.table.tobytes() == dense.table.tobytes()
    table, weights = alone(OPTIMIZERS[name](), ids)
    np.testing.assert_allclose(rows.table, table, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(rows.weights, weights, rtol=2e-5, atol=2e-6)


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("numerics", ["eager", "loop", "replay"])
@pytest.mark.parametrize("name", ["adagrad", "adam"])
def test_tables_in_buffers_of_their_own_have_the_same_bits(name: str, numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train(OPTIMIZERS[name], batches(8))
    monkeypatch.setattr(ledger_module, "TABLE_BYTES", 1)
    monkeypatch.setattr(plans, "TRIAL", 4)
    found = train(OPTIMIZERS[name], batches(8), numerics=numerics)
    assert found.table.tobytes() == expected.table.tobytes()
    assert found.weights.tobytes() == expected.weights.tobytes()


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.sample(2)
def test_where_shards_are_makes_no_difference(shards: int) -> None:
    ids = [np.array([0, 29], np.int32), np.array([29, 29, 14], np.int32), np.array([15], np.int32)] * 2
    found = train(OPTIMIZERS["adagrad"], ids, shards=shards)
    np.testing.assert_allclose(found.table, alone(OPTIMIZERS["adagrad"](), ids)[0], rtol=2e-5, atol=2e-6)


def test_rows_travel_and_not_tables() -> None:
    ids = batches(2)
    sent = train(OPTIMIZERS["sgd"], ids).cluster.trace.totals
    for worker in range(WORKERS):
        rows = sum(len(np.unique(numbers)) for numbers in ids[worker::WORKERS])
        assert sent[f"worker:{worker}", "bytes_sent"] == rows * (WIDTH * 4 + 8) + 2 * WEIGHTS.nbytes


@pytest.mark.parametrize("name", ["sgd", "adam"])
@pytest.mark.sample(2)
def test_closures_of_a_round_may_read_rows_or_the_whole_table(name: str) -> None:
    ids = batches()
    found = train(OPTIMIZERS[name], ids, [looked_up, whole, looked_up])
    table, weights = alone(OPTIMIZERS[name](), ids)
    np.testing.assert_allclose(found.table, table, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(found.weights, weights, rtol=2e-5, atol=2e-6)


def test_lazy_rows_change_what_one_of_the_closures_has_looked_up() -> None:
    ids = [np.array(numbers, np.int32) for numbers in ([1], [2, 3], [3])] + [np.array([number], np.int32) for number in (1, 4, 5)]
    found, exact = train(OPTIMIZERS["momentum"], ids, lazy_rows=True), train(OPTIMIZERS["momentum"], ids)
    after_one = train(OPTIMIZERS["momentum"], ids[:3], lazy_rows=True)
    assert sorted(np.flatnonzero((found.table != START).any(1))) == [1, 2, 3, 4, 5]
    assert np.array_equal(found.table[[2, 3]], after_one.table[[2, 3]]) and not np.array_equal(exact.table[[2, 3]], after_one.table[[2, 3]])
    assert np.array_equal(found.table[1], exact.table[1])


@pytest.mark.parametrize("options", [{"mode": "sync", "backup_workers": 1}, {"mode": "bounded", "staleness": 2}], ids=str)
def test_other_rounds_take_rows_as_well(options: dict[str, Any]) -> None:
    ids = [np.array([3 * number % ROWS, 7], np.int32) for number in range(18)]
    rows, dense = train(OPTIMIZERS["sgd"], ids, **options), train(OPTIMIZERS["sgd"], ids, [whole], **options)
    assert sorted(np.flatnonzero((rows.table != START).any(1))) == sorted({int(row) for numbers in ids for row in numbers})
    assert rows.cluster.trace.totals["ps:0", "bytes_sent"] < dense.cluster.trace.totals["ps:0", "bytes_sent"] / 2


def test_rounds_with_staleness_have_the_numbers_of_tables() -> None:
    ids = batches(6)
    rows = train(OPTIMIZERS["adagrad"], ids, mode="bounded", staleness=2)
    dense = train(OPTIMIZERS["adagrad"], ids, [whole], mode="bounded", staleness=2)
    np.testing.assert_allclose(rows.table, dense.table, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("at", [0.012, 0.0205, 0.035])
@pytest.mark.sample(2)
def test_a_server_that_dies_in_a_round_of_rows_loses_nothing(at: float) -> None:
    ids = batches()
    options: Any = {"recovery": "replica", "exactly_once": True}
    calm = train(OPTIMIZERS["adam"], ids, **options)
    crashed = train(OPTIMIZERS["adam"], ids, faults=lambda cluster: cluster.faults.crash("ps:1", at=at), **options)
    assert crashed.cluster.trace.summary()["failures"]
    assert crashed.table.tobytes() == calm.table.tobytes()
    assert crashed.weights.tobytes() == calm.weights.tobytes()


def test_a_worker_that_dies_in_a_round_of_rows_changes_no_number() -> None:
    ids = batches()
    calm = train(OPTIMIZERS["adam"], ids)
    crashed = train(OPTIMIZERS["adam"], ids, faults=lambda cluster: cluster.faults.crash("worker:1", at=0.012, restart_after=0.001))
    assert crashed.table.tobytes() == calm.table.tobytes()


def test_rows_are_those_of_the_round_where_a_server_is_slow_to_apply_it() -> None:
    def slow(cluster: sd.Cluster) -> None:
        cluster.faults.slow("ps:1", 1000.0, at=0.0, until=10.0)

    ids = batches()
    calm, slowed = train(OPTIMIZERS["adagrad"], ids), train(OPTIMIZERS["adagrad"], ids, faults=slow)
    assert slowed.cluster.now > 1.1 * calm.cluster.now
    assert slowed.table.tobytes() == calm.table.tobytes()


def test_optax_rules_are_averaged_too() -> None:
    ids = batches()
    rows, dense = train(lambda: optax.adagrad(0.3), ids), train(lambda: optax.adagrad(0.3), ids, [whole])
    assert rows.table.tobytes() == dense.table.tobytes()


def test_workers_with_several_devices_send_rows_once_in_rounds() -> None:
    def outcome(devices: int) -> tuple[np.ndarray, float]:
        cluster = sd.Cluster({"worker": 2, "ps": 1})
        strategy = sd.ParameterServerStrategy(cluster, mode="sync", devices_per_worker=devices)
        with strategy.scope():
            table, rule = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.Adagrad(0.3))

        def replica(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) ** 2).sum(), [table])()
            rule.apply_gradients(zip(gradients, [table], strict=True))

        @sd.function
        def step(iterator: Any) -> None:
            strategy.run(replica, args=(next(iterator),))

        coordinator = sd.ClusterCoordinator(strategy)
        numbers = np.random.default_rng(2).integers(0, ROWS, (16,)).astype(np.int32)
        dataset = coordinator.create_per_worker_dataset(
            lambda: strategy.experimental_distribute_dataset(sd.Dataset.from_tensor_slices(numbers).batch(4).repeat())
        )
        iterator = iter(dataset)
        for _ in range(6):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        return table.numpy(), cluster.trace.summary()["links"]["ps:0/in"]

    one, sent_by_one = outcome(1)
    two, sent_by_two = outcome(2)
    np.testing.assert_allclose(two, one, rtol=2e-5, atol=2e-6)
    assert sent_by_two == sent_by_one


def test_fit_moves_rows_in_rounds() -> None:
    def trained(**options: Any) -> tuple[float, Any]:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync", **options)
        with strategy.scope():
            model = keras.Sequential(
                [
                    keras.Input((3,), dtype="int32"),
                    keras.layers.Embedding(1000, 4, embeddings_initializer=keras.initializers.RandomUniform(seed=1)),
                    keras.layers.GlobalAveragePooling1D(),
                    keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=2)),
                ]
            )
            model.compile("adagrad", "mse")
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 1000, (32, 3)).astype(np.int32), rng.normal(size=(32, 1)).astype(np.float32)
        before = np.asarray(model.get_weights()[0])
        model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        changed = (np.asarray(model.get_weights()[0]) != before).any(1)
        assert set(np.flatnonzero(changed)) <= set(x.ravel())
        return strategy.cluster.trace.totals["worker:0", "bytes_sent"], changed.sum()

    for options in ({}, {"backup_workers": 1}):
        sent, changed = trained(**options)
        assert sent < 1000 * 4 * 4
        assert changed > 60
