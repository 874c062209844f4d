"""Sparse reads under parameter servers: rows travel, numbers are those of a dense step, and errors name table and row."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
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
from simdist.program.operations import Read, ReadRows
from simdist.variables import row_rule

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.1),
    "adam": lambda: keras.optimizers.Adam(0.1),
    "optax": lambda: optax.adagrad(0.1),
}
TAKE_ROOTS = ("adagrad", "optax", "rmsprop")
"""Of these, rows and tables differ in last bits: XLA's code of reciprocal roots depends on how long an array is (JAX 0.12, and
where it optimises less)."""
ROWS, WIDTH = 40, 3


class Outcome(NamedTuple):
    """Table, weights and losses of a run, and its cluster."""

    table: np.ndarray
    weights: np.ndarray
    losses: list[float]
    cluster: sd.Cluster


def looked_up(table: sd.Variable, ids: Any) -> Any:
    return sd.embedding_lookup(table, ids)


def whole(table: sd.Variable, ids: Any) -> Any:
    return jnp.take(table.value, ids, axis=0)


def train(
    optimizer: sd.Optimizer | None = None,
    lookup: Callable[[sd.Variable, Any], Any] = looked_up,
    steps: int = 4,
    shards: int = 2,
    workers: int = 1,
    ids: Any = None,
    **options: Any,
) -> Outcome:
    """Train a table and weights beside it, on batches of 4 times 3 ids."""
    cluster = sd.Cluster({"worker": workers, "ps": 2}, **options)
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(shards))
    rng = np.random.default_rng(0)
    start, weights = rng.normal(size=(ROWS, WIDTH)).astype(np.float32), rng.normal(size=(WIDTH, 1)).astype(np.float32)
    numbers = rng.integers(0, ROWS, (64, 3)) if ids is None else np.asarray(ids)
    targets = rng.normal(size=(len(numbers), 1)).astype(np.float32)
    with strategy.scope():
        table, w = sd.Variable(start, name="table"), sd.Variable(weights, name="w")
        optimizer = optimizer or sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        features, y = next(iterator)

        def loss() -> Any:
            return ((lookup(table, features).mean(1) @ w.value - y) ** 2).mean()

        value, gradients = sd.value_and_grad(loss, [table, w])()
        optimizer.apply_gradients(zip(gradients, [table, w], strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices((numbers, targets)).batch(4).repeat())
    iterator = iter(dataset)
    values = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
    coordinator.join()
    if cluster.engine.numerics == "off":
        return Outcome(np.zeros(0), np.zeros(0), [], cluster)
    return Outcome(table.numpy(), w.numpy(), [float(value.fetch()) for value in values], cluster)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is kept in a buffer of its own, and replayed soon."""
    monkeypatch.setattr(ledger_module, "TABLE_BYTES", 1)
    monkeypatch.setattr(plans, "TRIAL", 8)


# What CI tries: every plan, and rules that leave rows alone and that do not.
SAMPLE = {
    ("adam", "eager"),
    ("adagrad", "loop"),
    ("adam", "replay"),
    ("rmsprop", "replay"),
    ("optax", "vmap"),
}


@functools.cache  # the run that those of several plans are compared with
def trained_densely(name: str, steps: int) -> Outcome:
    return train(sd.Optimizer(OPTIMIZERS[name]()), whole, steps=steps, numerics="loop")


@pytest.mark.parametrize(
    ("name", "numerics"),
    sampled([(name, numerics) for name in OPTIMIZERS for numerics in ("eager", "loop", "replay", "vmap")], SAMPLE),
)
@pytest.mark.usefixtures("small_tables")
def test_rows_give_the_numbers_of_a_dense_step_in_every_plan(name: str, numerics: str) -> None:
    steps = 40 if numerics == "replay" else 4
    rows = train(sd.Optimizer(OPTIMIZERS[name]()), steps=steps, numerics=numerics)
    dense = trained_densely(name, steps)
    if name in TAKE_ROOTS:
        np.testing.assert_allclose(rows.table, dense.table, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rows.weights, dense.weights, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rows.losses, dense.losses, rtol=1e-6)
    else:
        assert rows.table.tobytes() == dense.table.tobytes()
        assert rows.weights.tobytes() == dense.weights.tobytes()
        assert rows.losses == dense.losses
    if numerics == "replay":
        found = rows.cluster.engine.world.ledger.plans  # type: ignore[attr-defined]
        assert found.machine.compilations and not found.refuted


@pytest.mark.parametrize("engine", [{"engine": "in_process"}, {"engine": "in_process", "isolated": True}])
@pytest.mark.sample(2)
def test_rows_give_the_same_numbers_on_every_engine(engine: dict[str, Any]) -> None:
    here, there = train(sd.Optimizer(OPTIMIZERS["adagrad"]())), train(sd.Optimizer(OPTIMIZERS["adagrad"]()), **engine)
    assert here.table.tobytes() == there.table.tobytes()
    assert here.losses == there.losses


@pytest.mark.usefixtures("small_tables")
def test_stale_rows_of_several_workers_are_those_that_a_dense_step_reads() -> None:
    # Every step takes a declared time, so that rows and tables are read and changed in the same order.
    outcomes = {numerics: train(steps=30, workers=3, numerics=numerics) for numerics in ("eager", "loop", "replay")}
    assert len({outcome.table.tobytes() for outcome in outcomes.values()}) == 1
    assert len({tuple(outcome.losses) for outcome in outcomes.values()}) == 1
    assert len({outcome.cluster.trace.digest() for outcome in outcomes.values()}) == 1


def test_bytes_are_those_of_the_rows_each_once_and_eight_for_each_number() -> None:
    # Rows 0 and 39: one on each server; row 39 is asked for by eleven ids of the batch.
    ids = np.full((4, 3), 39)
    ids[0, 0] = 0
    totals = train(steps=1, ids=ids, numerics="off").cluster.trace.totals
    row, weights = WIDTH * 4 + 8, WIDTH * 4
    assert totals["ps:0", "bytes_sent"] == row + weights // 3 * 2  # w has shards of 2 and 1 rows
    assert totals["ps:1", "bytes_sent"] == row + weights // 3
    assert totals["worker:0", "bytes_sent"] == 2 * row + weights


def test_a_server_without_rows_of_the_batch_sends_none() -> None:
    totals = train(steps=1, ids=np.zeros((4, 3), int), numerics="off").cluster.trace.totals
    assert totals["ps:1", "bytes_sent"] == 4  # its row of w


def test_spans_of_reads_say_how_many_rows() -> None:
    trace = train(steps=1, ids=np.arange(12).reshape(4, 3)).cluster.trace
    assert [span.facts["rows"] for span in trace.spans if span.category == "read"] == [12]


@pytest.mark.parametrize(("wrong", "shown"), [(40, "asks for row 40; the table has 40 rows"), (-1, "asks for row -1")])
def test_an_id_that_is_no_row_is_an_error_when_the_step_runs(wrong: int, shown: str) -> None:
    ids = np.zeros((4, 3), int)
    ids[2, 1] = wrong
    with pytest.raises(InvalidArgumentError, match=f"'table' {shown}"):
        train(steps=1, ids=ids)


def test_ids_that_are_no_integers_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="ids of dtype float32; expected integers"):
        train(steps=1, ids=np.zeros((4, 3), np.float32))


def test_rows_outside_of_a_step_are_in_the_order_of_their_ids() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(np.arange(14.0).reshape(7, 2), name="table")
        number = sd.Variable(1.0, name="number")
    assert np.asarray(sd.embedding_lookup(table, [6, 0, 4])).tolist() == [[12, 13], [0, 1], [8, 9]]
    with pytest.raises(InvalidArgumentError, match="asks for row 7"):
        sd.embedding_lookup(table, [7])
    with pytest.raises(InvalidArgumentError, match="single number"):
        sd.embedding_lookup(number, [0])


def operations_of(lookup: Callable[[sd.Variable, Any], Any], ids: int = 3) -> list[type]:
    """The kinds of reads of a step that looks up rows of a table of 40 rows."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        table = sd.Variable(np.ones((ROWS, WIDTH)), name="table")
    step = sd.function(lambda given: lookup(table, given).sum())
    with strategy.scope():
        program = step.trace(step.bind((np.arange(ids, dtype=np.int32),), {}))
    return [type(op) for op in program.operations if isinstance(op, (Read, ReadRows))]


def test_a_table_is_read_by_rows_where_only_rows_of_it_are_used() -> None:
    assert operations_of(looked_up) == [ReadRows]
    assert operations_of(lambda table, ids: looked_up(table, ids + 1) * looked_up(table, ids).sum()) == [ReadRows, ReadRows]


def test_a_table_is_read_as_a_whole_where_it_is_used_otherwise_or_is_smaller_than_the_rows() -> None:
    assert operations_of(lambda table, ids: (value := table.value).sum() + jnp.take(value, ids, axis=0)) == [Read]
    assert operations_of(looked_up, ids=ROWS) == [Read]


def test_ids_that_depend_on_a_variable_are_a_dense_read_and_a_warning() -> None:
    def lookup(table: sd.Variable, ids: Any) -> Any:
        return sd.embedding_lookup(table, ids + jnp.asarray(counter.value, jnp.int32))

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        table, counter = sd.Variable(np.arange(80.0).reshape(40, 2), name="table"), sd.Variable(2, name="counter", trainable=False)
    step = sd.function(lambda: lookup(table, np.array([1, 5])).sum(1))
    coordinator = sd.ClusterCoordinator(strategy)
    with pytest.warns(DenseReadWarning, match="looks up rows of 'table' by ids that do not follow from its batch"):
        value = coordinator.schedule(step)
        coordinator.join()
    assert value.fetch().tolist() == [13.0, 29.0]


def test_a_lookup_inside_of_a_scan_is_a_dense_read_with_the_same_numbers() -> None:
    def lookup(table: sd.Variable, ids: Any) -> Any:
        value = sd.embedding_lookup(table, ids)
        return jax.lax.scan(lambda carry, row: (carry, row * 1.0), 0, value)[1]

    assert train(lookup=lookup).losses == train(lookup=whole).losses


@pytest.mark.parametrize("use", [lambda g: g * 0.5, lambda g: jnp.clip(g, -0.01, 0.01)])
def test_a_gradient_that_is_changed_first_is_dense_and_has_the_same_numbers(use: Callable[[Any], Any]) -> None:
    def outcome(lookup: Callable[[sd.Variable, Any], Any]) -> tuple[bytes, list[float]]:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
        with strategy.scope():
            table = sd.Variable(np.arange(80.0).reshape(40, 2) / 80, name="table")
            optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

        @sd.function
        def step(ids: Any) -> Any:
            value, (gradient,) = sd.value_and_grad(lambda: (lookup(table, ids) ** 2).sum(), [table])()
            optimizer.apply_gradients([(use(gradient), table)])
            return value, gradient.sum()

        coordinator = sd.ClusterCoordinator(strategy)
        values = [coordinator.schedule(step, args=(np.array([3, 3, 21], np.int32),)) for _ in range(3)]
        coordinator.join()
        return table.numpy().tobytes(), [float(part) for value in values for part in value.fetch()]

    assert outcome(looked_up) == outcome(whole)


def test_lazy_rows_leave_rows_without_a_gradient_and_their_slots_alone() -> None:
    ids = np.tile([[1, 5, 30]], (8, 1))
    lazy = train(sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9), lazy_rows=True), steps=3, ids=ids)
    exact = train(sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9)), steps=3, ids=ids)
    assert lazy.table.tobytes() == exact.table.tobytes()  # the same rows each time: nothing decays
    different = np.array([[1, 5, 30]] * 4 + [[2, 6, 31]] * 4)
    lazy = train(sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9), lazy_rows=True), steps=2, ids=different)
    exact = train(sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9)), steps=2, ids=different)
    assert not np.allclose(lazy.table[[1, 5, 30]], exact.table[[1, 5, 30]])
    assert np.allclose(lazy.table[[2, 6, 31]], exact.table[[2, 6, 31]], atol=0.1)


def test_a_rule_that_changes_all_rows_of_a_large_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_rule, "LARGE_TABLE_BYTES", 1)
    with pytest.warns(DenseUpdateWarning, match="Adam also changes rows of 'table' without a gradient"):
        train(sd.Optimizer(keras.optimizers.Adam(0.1)), steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(sd.Optimizer(keras.optimizers.Adagrad(0.1)), steps=1)


def test_keras_embedding_moves_rows() -> None:
    def outcome(lookup: str) -> tuple[np.ndarray, float]:
        cluster = sd.Cluster({"worker": 1, "ps": 2})
        strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))
        with strategy.scope():
            layer = keras.layers.Embedding(100, 4, embeddings_initializer=keras.initializers.RandomUniform(seed=1))
            layer.build()
            optimizer = sd.Optimizer(keras.optimizers.Adagrad(0.5))

        @sd.function
        def step(ids: Any) -> Any:
            def loss() -> Any:
                rows = layer(ids) if lookup == "layer" else jnp.take(layer.embeddings.value, ids, axis=0)
                return (rows**2).sum()

            value, gradients = sd.value_and_grad(loss, [layer.embeddings])()
            optimizer.apply_gradients(zip(gradients, [layer.embeddings], strict=True))
            return value

        coordinator = sd.ClusterCoordinator(strategy)
        for start in range(3):
            coordinator.schedule(step, args=(np.array([start, 70, 70], np.int32),))
        coordinator.join()
        return np.asarray(layer.embeddings), cluster.trace.totals["worker:0", "bytes_sent"]

    rows, dense = outcome("layer"), outcome("dense")
    np.testing.assert_allclose(rows[0], dense[0], rtol=1e-6, atol=1e-7)
    assert rows[1] == 3 * 2 * (16 + 8)
    assert dense[1] == 3 * 100 * 16


def test_slots_are_those_of_their_rows_where_a_lookup_has_as_many_ids_as_a_shard_has_rows() -> None:
    def after(lookup: Callable[[sd.Variable, Any], Any]) -> bytes:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, numerics="eager"), sd.FixedShardsPartitioner(2))
        with strategy.scope():
            table = sd.Variable(np.random.default_rng(1).normal(size=(24, WIDTH)), name="table")  # two shards of 12 rows
            optimizer = sd.Optimizer(keras.optimizers.Adagrad(0.1))

        @sd.function
        def step(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (lookup(table, ids) ** 2).sum(), [table])()
            optimizer.apply_gradients(zip(gradients, [table], strict=True))

        coordinator = sd.ClusterCoordinator(strategy)
        for ids in (np.arange(12) * 2, np.arange(12) + 7):
            coordinator.schedule(step, args=(ids.astype(np.int32),))
        coordinator.join()
        return table.numpy().tobytes()

    assert after(looked_up) == after(whole)


def test_time_does_not_depend_on_the_size_of_the_table() -> None:
    def seconds(rows: int) -> float:
        cluster = sd.Cluster({"worker": 2, "ps": 2}, numerics="off")
        strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))
        with strategy.scope():
            table, optimizer = sd.Variable(np.zeros((rows, 8)), name="table"), sd.Optimizer(keras.optimizers.Adagrad(0.1))

        @sd.function
        def step(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) ** 2).sum(), [table])()
            optimizer.apply_gradients(zip(gradients, [table], strict=True))

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(6):
            coordinator.schedule(step, args=(np.array([0, rows - 1, 1, rows - 2], np.int32),))
        coordinator.join()
        return cluster.engine.now

    assert seconds(1_000) == pytest.approx(seconds(100_000), rel=1e-9)


def test_a_table_is_updated_by_rows_without_numbers_also_when_the_last_batch_is_smaller() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, numerics="off"), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(np.ones((50, 2), np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: jnp.sum(sd.embedding_lookup(table, ids)), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    for ids in ([1, 2, 3], [4, 5, 6], [7]):
        coordinator.schedule(step, args=(np.array(ids, np.int32),))
        coordinator.join()
    sent = strategy.cluster.trace.totals["worker:0", "bytes_sent"]
    assert 0 < sent < 3 * 50 * 2 * 4  # no table


@pytest.mark.parametrize("shape", [(ROWS, 0), (ROWS, 0, 2)])
def test_rows_without_numbers_are_looked_up_and_trained(shape: tuple[int, ...]) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table, optimizer = sd.Variable(np.zeros(shape, np.float32)), sd.Optimizer(keras.optimizers.SGD(0.1))
    coordinator = sd.ClusterCoordinator(strategy)

    def step() -> Any:
        loss, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, np.array([1, 2])).sum(), [table])()
        return loss, optimizer.apply_gradients(zip(gradients, [table], strict=True))

    assert float(coordinator.schedule(sd.function(step)).fetch()[0]) == 0.0
