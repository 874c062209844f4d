"""Workers with several devices read and send rows of tables: each row once for all their replicas, with the numbers of one device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import DenseReadWarning, DenseUpdateWarning, InvalidArgumentError
from simdist.ledger import ledger as ledger_module
from simdist.ledger import plans

ROWS, WIDTH, BATCH, STEPS = 40, 3, 6, 4
EXAMPLES = 19  # the last batch has one of them: none for the other replicas
ROW_BYTES = WIDTH * 4 + 8
RNG = np.random.default_rng(0)
IDS, TARGETS = RNG.integers(0, ROWS, (EXAMPLES, 3)), RNG.normal(size=(EXAMPLES, 1)).astype(np.float32)
TABLE = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: sd.Optimizer(keras.optimizers.SGD(0.1)),
    "adagrad": lambda: sd.Optimizer(optax.adagrad(0.1)),
    "adam": lambda: sd.Optimizer(keras.optimizers.Adam(0.1)),
    "lazy adam": lambda: sd.Optimizer(keras.optimizers.Adam(0.1), lazy_rows=True),
}

Lookup = Callable[[sd.Variable, Any], Any]


class Outcome(NamedTuple):
    """The table and the results of a run, its strategy, and the variable."""

    table: np.ndarray
    results: list[Any]
    strategy: sd.ParameterServerStrategy
    variable: sd.Variable


def looked_up(table: sd.Variable, ids: Any) -> Any:
    return sd.embedding_lookup(table, ids).sum(1)


def looked_up_twice(table: sd.Variable, ids: Any) -> Any:
    return sd.embedding_lookup(table, ids).sum(1) + 0.5 * sd.embedding_lookup(table, ids[:, 0])


def padded(table: sd.Variable, ids: Any) -> Any:
    return sd.embedding_lookup_sparse(table, jnp.where(ids < 8, -1, ids), combiner="sum")


def whole(table: sd.Variable, ids: Any) -> Any:
    return jnp.take(table.value, ids, axis=0).sum(1)


def by_rank(table: sd.Variable, ids: Any) -> Any:
    """One replica reads rows, the others the table."""
    return looked_up(table, ids) if sd.get_replica_context().replica_id_in_sync_group == 0 else whole(table, ids)


def train(
    devices: int, lookup: Lookup = looked_up, optimizer: str = "sgd", workers: int = 1, faults: Any = None, **options: Any
) -> Outcome:
    """Four steps: mean squared errors of sums of three rows."""
    served = {key: options.pop(key) for key in ("recovery", "exactly_once") if key in options}
    cluster = sd.Cluster({"worker": workers, "ps": 2}, **options)
    if faults is not None:
        faults(cluster.faults)
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2), devices_per_worker=devices, **served)
    with strategy.scope():
        table, rule = sd.Variable(TABLE, name="table"), OPTIMIZERS[optimizer]()

    def replica(batch: Any) -> Any:
        ids, target = batch

        def loss() -> Any:
            return ((lookup(table, ids).sum(1, keepdims=True) - target) ** 2).sum() / BATCH

        value, gradients = sd.value_and_grad(loss, [table])()
        rule.apply_gradients(zip(gradients, [table], strict=True))
        return value

    @sd.function
    def step(iterator: Any) -> Any:
        return strategy.reduce("sum", strategy.run(replica, args=(next(iterator),)), axis=None)

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = sd.Dataset.from_tensor_slices((IDS, TARGETS)).batch(BATCH)
    iterator = iter(coordinator.create_per_worker_dataset(strategy.distribute_dataset(dataset)))
    values = [coordinator.schedule(step, args=(iterator,)) for _ in range(STEPS * workers)]
    coordinator.join()
    if options.get("numerics") == "off":
        return Outcome(np.zeros(0), [], strategy, table)
    return Outcome(table.numpy(), [float(value.fetch()) for value in values], strategy, table)


@functools.cache  # what several devices are compared with
def on_one_device(lookup: Lookup, optimizer: str) -> Outcome:
    return train(1, lookup, optimizer)


def table_bytes(outcome: Outcome) -> list[tuple[int, int]]:
    """What travelled for the two shards: read, and updated."""
    return [(record.bytes_read, record.bytes_updated) for record in outcome.strategy.traffic()[:2]]


SAMPLE = {(3, looked_up, "lazy adam"), (2, looked_up_twice, "adagrad"), (5, padded, "sgd")}


@pytest.mark.parametrize(
    ("devices", "lookup", "optimizer"),
    sampled([(d, lookup, name) for d in (2, 3, 5) for lookup in (looked_up, looked_up_twice, padded) for name in OPTIMIZERS], SAMPLE),
)
def test_numbers_and_bytes_are_those_of_one_device(devices: int, lookup: Lookup, optimizer: str) -> None:
    expected = on_one_device(lookup, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(devices, lookup, optimizer)
    np.testing.assert_allclose(found.table, expected.table, rtol=0, atol=5e-7)
    np.testing.assert_allclose(found.results, expected.results, rtol=1e-5)
    assert table_bytes(found) == table_bytes(expected)
    assert found.strategy.hot_rows(found.variable) == expected.strategy.hot_rows(expected.variable)


def test_each_row_travels_once_for_all_replicas() -> None:
    batches = [IDS[start : start + BATCH] for start in range(0, EXAMPLES, BATCH)]
    read, updated = zip(*table_bytes(train(3)), strict=True)
    assert sum(read) == sum(updated) == sum(len(np.unique(batch)) for batch in batches) * ROW_BYTES


@pytest.mark.parametrize("numerics", sampled(["eager", "loop", "replay", "vmap"], {"replay"}))
def test_every_plan_has_the_same_bits_and_the_same_time(numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train(3, optimizer="adagrad")
    monkeypatch.setattr(ledger_module, "TABLE_BYTES", 1)  # every table is kept in a buffer of its own, and replayed soon
    monkeypatch.setattr(plans, "TRIAL", 8)
    found = train(3, optimizer="adagrad", numerics=numerics)
    np.testing.assert_array_equal(found.table, expected.table)
    assert found.strategy.cluster.now == expected.strategy.cluster.now


def test_time_is_the_same_where_no_numbers_are_computed() -> None:
    assert train(3, numerics="off").strategy.cluster.now == train(3).strategy.cluster.now


@pytest.mark.parametrize("options", [{}, {"isolated": True}], ids=str)
@pytest.mark.sample(2)
def test_an_engine_without_a_clock_has_the_same_bits(options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(train(3, optimizer="adam", engine="in_process", **options).table, train(3, optimizer="adam").table)


# -- replicas that differ ---------------------------------------------------------------------------------------------


def test_replicas_that_look_up_other_tables_move_whole_ones_and_say_so() -> None:
    with pytest.warns(DenseReadWarning, match="replicas look up rows of different tables"):
        found = train(2, by_rank)
    np.testing.assert_allclose(found.table, on_one_device(whole, "sgd").table, rtol=0, atol=5e-7)
    assert table_bytes(found) == table_bytes(on_one_device(whole, "sgd"))


def test_a_lookup_across_the_replicas_reads_rows_and_a_gradient_of_it_is_dense() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), devices_per_worker=2)
    with strategy.scope():
        table, rule = sd.Variable(TABLE, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))

    @sd.function
    def step(ids: Any) -> Any:
        value, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        rule.apply_gradients(zip(gradients, [table], strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    value = coordinator.schedule(step, args=(np.array([3, 3, 39]),))
    coordinator.join()
    np.testing.assert_allclose(value.fetch(), 2 * TABLE[3].sum() + TABLE[39].sum(), rtol=1e-5)
    expected = TABLE.copy()
    np.add.at(expected, [3, 3, 39], -1.0)
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-6)
    assert strategy.traffic()[0].bytes_read == 2 * ROW_BYTES


def test_replicas_without_an_id_among_them_ask_for_no_row() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=2)
    with strategy.scope():
        table = sd.Variable(TABLE, name="table")
    step = sd.function(lambda ids: strategy.run(lambda own: sd.embedding_lookup(table, own).sum(), args=(ids,)))
    value = sd.ClusterCoordinator(strategy).schedule(step, args=(np.zeros(0, np.int32),))
    assert [float(part) for part in strategy.local_results(value.fetch())] == [0.0, 0.0]
    assert strategy.traffic()[0].bytes_read == 0


def test_an_id_that_is_no_row_ends_the_closure_for_all_replicas() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=2)
    with strategy.scope():
        table = sd.Variable(TABLE, name="table")

    @sd.function
    def step(ids: Any) -> Any:
        return strategy.run(lambda own: sd.embedding_lookup(table, own), args=(ids,))

    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(step, args=(sd.PerReplica((np.array([1]), np.array([ROWS]))),))
    with pytest.raises(InvalidArgumentError, match=f"asks for row {ROWS}"):
        coordinator.join()


def summed_by_hand(strategy: Any, table: Any, rule: Any, gradient: Any) -> None:
    total = sd.get_replica_context().all_reduce("sum", gradient)
    rule.apply_gradients([(total, table)], skip_gradients_aggregation=True)


def applied_twice(strategy: Any, table: Any, rule: Any, gradient: Any) -> None:
    for _ in range(2):
        rule.apply_gradients([(gradient, table)])


def lazily_trained(devices: int, rows: int, apply: Any = lambda _, table, rule, gradient: rule.apply_gradients([(gradient, table)])) -> Any:
    """Two steps with eight ids each, of row 0 and then of row 1; the table, and what travelled for it."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=devices)
    with strategy.scope():
        table = sd.Variable(np.ones((rows, 1), np.float32), name="table")
        rule = sd.Optimizer(keras.optimizers.SGD(1.0, momentum=0.5), lazy_rows=True)

    def replica(ids: Any) -> None:
        _, (gradient,) = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        apply(strategy, table, rule, gradient)

    step = sd.function(lambda iterator: strategy.run(replica, args=(next(iterator),)))
    coordinator = sd.ClusterCoordinator(strategy)
    dataset = sd.Dataset.from_tensor_slices(np.array([[0, 0]] * 4 + [[1, 1]] * 4, np.int32)).batch(4)
    iterator = iter(coordinator.create_per_worker_dataset(strategy.distribute_dataset(dataset)))
    for _ in range(2):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    record = strategy.traffic()[0]
    return table.numpy().ravel().tolist(), record.bytes_read, record.bytes_updated


@pytest.mark.parametrize("rows", [9, 8])
@pytest.mark.sample(2)
def test_rows_are_read_where_all_replicas_together_ask_for_fewer_than_there_are(rows: int) -> None:
    found, expected = lazily_trained(2, rows), lazily_trained(1, rows)
    assert found == expected
    assert (found[0][0] == -7.0) == (rows == 9), "lazy_rows has an effect on rows alone"


def test_a_gradient_that_is_applied_twice_is_one_of_rows_each_time() -> None:
    assert lazily_trained(2, 20, applied_twice) == lazily_trained(1, 20, applied_twice)


def test_lazy_rows_say_where_they_have_no_effect() -> None:
    with pytest.warns(DenseUpdateWarning, match="has no effect on 'table' in a step"):
        lazily_trained(2, 20, summed_by_hand)


def test_a_replica_without_rows_reads_no_metrics_and_the_others_still_read_rows() -> None:
    def read(devices: int) -> tuple[int, int]:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=devices)
        with strategy.scope():
            layers = [keras.layers.Embedding(60, 3), keras.layers.Flatten(), keras.layers.Dense(1, activation="sigmoid")]
            model = keras.Sequential([keras.Input((4,), dtype="int32"), *layers])
            model.compile("sgd", "mse", metrics=["auc"])
        model.fit(sd.Dataset.from_tensor_slices((np.arange(8).reshape(2, 4), np.ones((2, 1), np.float32))).batch(8), verbose=0)
        record = strategy.traffic()[0]
        return record.reads, record.bytes_read

    assert read(3) == read(1) == (1, 8 * ROW_BYTES)


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["worker:0", "ps:0", "ps:1"])
@pytest.mark.parametrize("moment", sampled([0.1, 0.3, 0.5, 0.7, 0.9], {0.5}))
def test_a_crash_changes_no_row(task: str, moment: float) -> None:
    safe = {"recovery": "replica", "exactly_once": True}
    calm = train(2, **safe)
    at_s = moment * calm.strategy.cluster.now
    found = train(2, faults=lambda faults: faults.crash(task, at=at_s, restart_after=0.01), **safe)
    assert found.strategy.cluster.now > calm.strategy.cluster.now
    # The dataset of a worker that comes back begins anew, so its closures may see other batches; a server has lost nothing.
    if task.startswith("ps"):
        np.testing.assert_array_equal(found.table, calm.table)
    assert len(found.results) == STEPS
