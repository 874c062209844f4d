"""Sparse lookups: combined rows are those of numpy, gradients those of plain JAX, and padding asks for nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import DenseReadWarning, InvalidArgumentError

ROWS, WIDTH = 50, 4
IDS = np.array([[3, 41, 3, -1], [-1, -1, -1, -1], [49, -7, 0, 3], [17, -1, -1, -1]], np.int32)
WEIGHTS = np.array([[1.0, 2.0, 0.5, np.nan], [9.0, 9.0, 9.0, 9.0], [3.0, 8.0, -1.0, 2.0], [0.5, 1.0, 1.0, 1.0]], np.float32)
COMBINERS = ("mean", "sqrtn", "sum")


def table_of(rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(rows, width)).astype(np.float32)


def by_hand(table: np.ndarray, ids: np.ndarray, weights: np.ndarray | None, combiner: str, default: int | None = None) -> np.ndarray:
    """The same in numpy, row by row."""
    found = np.zeros((len(ids), table.shape[1]))
    for row, own in enumerate(ids):
        factors = np.ones(len(own)) if weights is None else weights[row].astype(np.float64)
        pairs = [(number, factor) for number, factor in zip(own, factors, strict=True) if number >= 0]
        if not any(factor for _, factor in pairs):
            found[row] = 0 if default is None else table[default]
            continue
        total = sum(factor * table[number].astype(np.float64) for number, factor in pairs)
        divisor = {"sum": 1, "mean": sum(f for _, f in pairs), "sqrtn": np.sqrt(sum(f * f for _, f in pairs))}[combiner]
        found[row] = total / divisor
    return found


class Trained:
    """A table under parameter servers, trained by one closure for each array of ids.

    Attributes:
        sent: for each server, the bytes that it has sent to the worker; and those that the worker has sent.
    """

    def __init__(self, lookup: Callable[..., Any], batches: list[Any], shards: int = 2, servers: int = 2, **options: Any) -> None:
        cluster = sd.Cluster({"worker": 1, "ps": servers}, **options)
        strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(shards))
        with strategy.scope():
            self.table, optimizer = sd.Variable(table_of(), name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))

        @sd.function
        def step(ids: Any) -> Any:
            value, gradients = sd.value_and_grad(lambda: (lookup(self.table, ids) ** 2).sum(), [self.table])()
            optimizer.apply_gradients(zip(gradients, [self.table], strict=True))
            return value

        coordinator = sd.ClusterCoordinator(strategy)
        values = [coordinator.schedule(step, args=(ids,)) for ids in batches]
        coordinator.join()
        self.digest = cluster.trace.digest()
        totals = cluster.trace.totals if options.get("engine") is None else {}
        self.sent = {name: totals.get((name, "bytes_sent"), 0) for name in ("ps:0", "ps:1", "worker:0")}
        self.losses = [] if options.get("numerics") == "off" else [float(value.fetch()) for value in values]
        self.values = np.zeros(0) if options.get("numerics") == "off" else self.table.numpy()


def in_jax(table: Any, ids: Any, weights: Any, combiner: str) -> Any:
    """The same in plain JAX, in another manner: as a product with a matrix [b, r]."""
    kept = jnp.where(ids >= 0, 1.0 if weights is None else weights, 0.0)
    counts = jnp.zeros((len(ids), len(table))).at[jnp.arange(len(ids))[:, None], jnp.maximum(ids, 0)].add(kept)
    sums = {"sum": jnp.ones(len(ids)), "mean": kept.sum(1), "sqrtn": jnp.sqrt((kept**2).sum(1))}[combiner]
    return counts @ table / jnp.where(sums == 0, 1, sums)[:, None]


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.sample
def test_rows_are_combined_as_by_hand(combiner: str, weights: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(3))
    with strategy.scope():
        table = sd.Variable(table_of(), name="table")
    outside = sd.embedding_lookup_sparse(table, IDS, weights, combiner)
    np.testing.assert_allclose(outside, by_hand(table_of(), IDS, weights, combiner), rtol=1e-5, atol=1e-6)
    coordinator = sd.ClusterCoordinator(strategy)
    inside = coordinator.schedule(sd.function(lambda ids: sd.embedding_lookup_sparse(table, ids, weights, combiner)), args=(IDS,))
    np.testing.assert_allclose(inside.fetch(), outside, rtol=1e-6, atol=1e-6)


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize(("shards", "weights"), [(1, None), (3, WEIGHTS)], ids=["whole-plain", "shards-weighted"])
def test_gradients_are_those_of_plain_jax(combiner: str, shards: int, weights: Any) -> None:
    given = None if weights is None else np.nan_to_num(weights)
    run = Trained(lambda table, ids: sd.embedding_lookup_sparse(table, ids, weights, combiner), [IDS], shards)
    gradient = jax.grad(lambda table: (in_jax(table, jnp.asarray(IDS), given, combiner) ** 2).sum())(table_of())
    np.testing.assert_allclose(run.values, table_of() - gradient, rtol=1e-5, atol=1e-6)


def test_weights_that_are_learned_have_the_gradient_of_plain_jax() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    start = np.nan_to_num(WEIGHTS)
    with strategy.scope():
        table, weights = sd.Variable(table_of(), name="table"), sd.Variable(start, name="weights")

    @sd.function
    def step(ids: Any) -> Any:
        return sd.value_and_grad(lambda: (sd.embedding_lookup_sparse(table, ids, weights, "sqrtn") ** 2).sum(), [weights])()[1][0]

    found = sd.ClusterCoordinator(strategy).schedule(step, args=(IDS,)).fetch()
    expected = jax.grad(
        lambda w: (in_jax(table_of(), jnp.asarray(IDS), jnp.where(IDS < 0, 0.0, w), "sqrtn") ** 2)[jnp.array([0, 2, 3])].sum()
    )(start)
    np.testing.assert_allclose(found, np.where(IDS < 0, 0, expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shards", [1, 2])
def test_each_row_travels_once_and_padding_moves_nothing(shards: int) -> None:
    rows = {1: {"ps:0": 5, "ps:1": 0}, 2: {"ps:0": 3, "ps:1": 2}}[shards]  # 0, 3, 17 and 41, 49
    size = WIDTH * 4 + 8
    run = Trained(lambda table, ids: sd.embedding_lookup_sparse(table, ids), [IDS], shards, numerics="off")
    assert run.sent == {server: count * size for server, count in rows.items()} | {"worker:0": 5 * size}


def test_padding_changes_neither_bytes_nor_numbers_of_the_rows() -> None:
    # Row 0, to which padding is clipped where JAX computes on the whole table, is in no batch.
    ids = np.array([[3, 41], [17, 9]], np.int32)
    padded = np.concatenate([ids, np.full((2, 9), -1, np.int32)], axis=1)
    plain, wide = (Trained(lambda table, ids: sd.embedding_lookup_sparse(table, ids), [own] * 2) for own in (ids, padded))
    assert plain.sent == wide.sent
    np.testing.assert_allclose(plain.values, wide.values, rtol=1e-6)
    assert wide.values[[0, 49]].tobytes() == table_of()[[0, 49]].tobytes()


@pytest.mark.parametrize(
    "engine", [{}, {"numerics": "eager"}, {"engine": "in_process"}, {"engine": "in_process", "isolated": True}], ids=str
)
@pytest.mark.sample(2)
def test_a_batch_of_padding_alone_asks_no_server_and_changes_nothing(engine: dict[str, Any]) -> None:
    run = Trained(lambda table, ids: sd.embedding_lookup_sparse(table, ids), [np.full((2, 3), -1, np.int32)], **engine)
    assert set(run.sent.values()) == {0}
    assert run.losses == [0.0]
    assert run.values.tobytes() == table_of().tobytes()


@pytest.mark.parametrize("engine", [{"engine": "in_process"}, {"engine": "in_process", "isolated": True}], ids=str)
@pytest.mark.sample(2)
def test_engines_agree_to_the_bit(engine: dict[str, Any]) -> None:
    def lookup(table: sd.Variable, ids: Any) -> Any:
        return sd.embedding_lookup_sparse(table, ids) + sd.embedding_lookup(table, abs(ids[:, 0]))

    here, there = Trained(lookup, [IDS, IDS[::-1]]), Trained(lookup, [IDS, IDS[::-1]], **engine)
    assert here.values.tobytes() == there.values.tobytes()
    assert here.losses == there.losses


def test_rows_give_the_bits_of_a_dense_step() -> None:
    def densely(table: sd.Variable, ids: Any) -> Any:
        return sd.embedding_lookup_sparse(table, ids) + 0 * table.value.sum()

    rows, whole = (Trained(lookup, [IDS, IDS[::-1]]) for lookup in (sd.embedding_lookup_sparse, densely))
    assert rows.values.tobytes() == whole.values.tobytes()
    assert rows.losses == whole.losses
    assert whole.sent["ps:0"] > rows.sent["ps:0"]


def test_a_default_is_the_row_of_those_without_ids_and_is_read_only_for_them() -> None:
    def lookup(table: sd.Variable, ids: Any) -> Any:
        return sd.embedding_lookup_sparse(table, ids, default_id=20)

    some, none = (Trained(lookup, [ids], numerics="off").sent for ids in (IDS, IDS[[0, 2, 3]]))
    assert some["worker:0"] - none["worker:0"] == WIDTH * 4 + 8
    run = Trained(lookup, [IDS])
    expected = by_hand(table_of(), IDS, None, "mean", default=20)
    assert run.losses == [pytest.approx((expected**2).sum(), rel=1e-5)]
    np.testing.assert_allclose(run.values[20], table_of()[20] * -1, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_ids_of_every_width_take_a_default(dtype: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        table = sd.Variable(table_of(300), name="table")
    ids = np.array([[5, 100]], dtype)
    weights = np.array([[0.0, 0.0]])
    assert np.asarray(sd.embedding_lookup_sparse(table, ids, weights, default_id=290))[0].tolist() == table_of(300)[290].tolist()
    assert np.asarray(sd.embedding_lookup_sparse(table, ids))[0].tolist() == pytest.approx(table_of(300)[[5, 100]].mean(0).tolist())


def test_rows_of_any_shape_and_of_whole_numbers_are_combined() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        table = sd.Variable(np.arange(12).reshape(3, 2, 2), name="table", trainable=False)
    found = np.asarray(sd.embedding_lookup_sparse(table, np.array([[[0, 2], [1, -1]]]), combiner="mean"))
    assert found.dtype == np.float32
    assert found.tolist() == [[[[4, 5], [6, 7]], [[4, 5], [6, 7]]]]


def test_replicas_of_a_mirrored_strategy_have_the_same_numbers() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        table = sd.Variable(table_of(), name="table")
    found = strategy.run(sd.function(lambda: sd.embedding_lookup_sparse(table, IDS)))
    for value in strategy.experimental_local_results(found):
        np.testing.assert_allclose(value, by_hand(table_of(), IDS, None, "mean"), rtol=1e-5, atol=1e-6)


def lookup_in(ids: Any, **options: Any) -> Any:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        table = sd.Variable(table_of(), name="table")
    return sd.embedding_lookup_sparse(table, ids, **options)


@pytest.mark.parametrize(
    ("ids", "options", "shown"),
    [
        ([[1, 50]], {}, "asks for row 50; the table has 50 rows"),
        ([[1.5]], {}, "ids of dtype float64; expected integers"),
        ([[1], [2, 3]], {}, "Fill them up to one length, with -1"),
        (3, {}, r"was given one id; expected an array \[..., n\]"),
        ([[1]], {"weights": [1.0]}, r"weights of shape \(1,\) for ids of shape \(1, 1\)"),
        ([[1]], {"weights": [[True]]}, "weights of dtype bool; expected numbers"),
        ([[1]], {"combiner": "men"}, r"combiner='men' is not known; use one of 'mean', 'sqrtn', 'sum'\. Did you mean 'mean'\?"),
        ([[1]], {"default_id": 50}, "default_id=50 is no row of 'table', which has 50 rows"),
    ],
)
def test_what_cannot_be_looked_up_is_refused(ids: Any, options: dict[str, Any], shown: str) -> None:
    with pytest.raises(InvalidArgumentError, match=shown):
        lookup_in(ids, **options)


def test_an_id_beyond_the_table_is_an_error_of_the_step_also_among_padding() -> None:
    with pytest.raises(InvalidArgumentError, match="'table' asks for row 50; the table has 50 rows"):
        Trained(lambda table, ids: sd.embedding_lookup_sparse(table, ids), [np.array([[-1, 50]], np.int32)])


def test_a_lookup_without_padding_beside_one_with_it_still_refuses_negative_ids() -> None:
    def lookup(table: sd.Variable, ids: Any) -> Any:
        return sd.embedding_lookup_sparse(table, ids[:1]) + sd.embedding_lookup(table, ids[1])

    assert len(Trained(lookup, [np.array([[-1, 4], [3, 5]], np.int32)]).losses) == 1
    with pytest.raises(InvalidArgumentError, match="'table' asks for row -2"):
        Trained(lookup, [np.array([[-1, 4], [3, -2]], np.int32)])


def test_a_default_by_learned_weights_is_a_dense_read_and_a_warning() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        table, weights = sd.Variable(table_of(), name="table"), sd.Variable(np.zeros((1, 2)), name="weights")
    step = sd.function(lambda ids: sd.embedding_lookup_sparse(table, ids, weights, default_id=7))
    with pytest.warns(DenseReadWarning):
        found = sd.ClusterCoordinator(strategy).schedule(step, args=(np.array([[1, 2]], np.int32),)).fetch()
    assert np.asarray(found).tolist() == table_of()[[7]].tolist()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("ids", "weights", "combiner"),
    [([0], [300.0], "sqrtn"), ([0, 1], [7e4, 7e4], "mean"), ([0, 1, 0], [0.1, 0.2, 0.3], "sum"), ([0] * 1000, None, "mean")],
)
@pytest.mark.parametrize("traced", [False, True])
def test_rows_of_half_precision_are_put_together_in_float32(dtype: str, ids: list[int], weights: Any, combiner: str, traced: bool) -> None:
    table = sd.Variable(np.array([[100.0, 0.5], [3.0, 1.0]], np.float32), dtype=dtype)
    given = None if weights is None else np.array([weights], np.float32)
    lookup = partial(sd.embedding_lookup_sparse, table, [ids], given, combiner)
    found = sd.function(lambda: lookup())() if traced else lookup()
    expected = by_hand(np.array([[100.0, 0.5], [3.0, 1.0]]), np.array([ids]), given, combiner)
    assert str(found.dtype) == dtype
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol={"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype])
