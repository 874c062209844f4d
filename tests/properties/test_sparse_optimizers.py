"""Any optimizer, tables, shards and ids: a step by rows changes what the same rule changes on dense gradients, on one device and by itself.

Under parameter servers a worker gives gradients of rows; under synchronous strategies those of the replicas are added up first.
With ``lazy_rows=True`` it changes that in the rows that were asked for, and in no other: neither the table nor its slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.ledger import ledger as ledger_module

own = keras.optimizers
SCHEDULE: Any = keras.optimizers.schedules


def warmed_up() -> Any:
    """A rate that is 0 at first."""
    return SCHEDULE.PolynomialDecay(0.0, 3, end_learning_rate=0.3)


ELEMENTWISE: dict[str, Callable[[], Any]] = {
    "SGD": lambda: own.SGD(0.3),
    "SGD, momentum": lambda: own.SGD(0.3, momentum=0.9),
    "SGD, Nesterov": lambda: own.SGD(0.3, momentum=0.9, nesterov=True),
    "SGD, weight decay": lambda: own.SGD(0.3, weight_decay=0.1),
    "SGD, warmed up": lambda: own.SGD(warmed_up()),
    "SGD, decay, warmed up": lambda: own.SGD(warmed_up(), weight_decay=0.5),
    "SGD, accumulated": lambda: own.SGD(0.3, gradient_accumulation_steps=2),
    "Adagrad, accumulated": lambda: own.Adagrad(0.3, gradient_accumulation_steps=3),
    "SGD, averaged": lambda: own.SGD(0.3, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "SGD, clipped numbers": lambda: own.SGD(0.3, clipvalue=0.05),
    "SGD, clipped norms": lambda: own.SGD(0.3, clipnorm=0.5),
    "SGD, clipped together": lambda: own.SGD(0.3, global_clipnorm=0.5),
    "Adadelta": lambda: own.Adadelta(0.9),
    "Adagrad": lambda: own.Adagrad(0.3),
    "Adam": lambda: own.Adam(0.1),
    "Adam, AMSGrad": lambda: own.Adam(0.1, amsgrad=True),
    "AdamW": lambda: own.AdamW(0.1, weight_decay=0.1),
    "Adamax": lambda: own.Adamax(0.1),
    "Ftrl": lambda: own.Ftrl(0.3),
    "Ftrl, shrunk": lambda: own.Ftrl(0.3, l1_regularization_strength=0.05, l2_shrinkage_regularization_strength=0.1),
    "Lion": lambda: own.Lion(0.05),
    "Nadam": lambda: own.Nadam(0.1),
    "RMSprop": lambda: own.RMSprop(0.1),
    "RMSprop, centered": lambda: own.RMSprop(0.1, centered=True, momentum=0.5),
    "optax.sgd": lambda: optax.sgd(0.3),
    "optax.sgd, momentum": lambda: optax.sgd(0.3, momentum=0.9, nesterov=True),
    "optax.sgd, warmed up": lambda: optax.chain(optax.add_decayed_weights(0.5), optax.sgd(optax.linear_schedule(0.0, 0.3, 3))),
    "optax.adagrad": lambda: optax.adagrad(0.3),
    "optax.adam": lambda: optax.adam(0.1),
    "optax.adamw": lambda: optax.adamw(0.1, weight_decay=0.1),
    "optax.lion": lambda: optax.lion(0.05),
    "optax.rmsprop": lambda: optax.rmsprop(0.1),
    "optax.adadelta": lambda: optax.adadelta(0.9),
    "optax.yogi": lambda: optax.yogi(0.1),
    "optax.apply_every": lambda: optax.chain(optax.sgd(0.3), optax.apply_every(2)),
    "optax.MultiSteps": lambda: optax.MultiSteps(optax.sgd(0.3), 2).gradient_transformation(),
    "optax.clip": lambda: optax.chain(optax.clip(0.05), optax.adagrad(0.3)),
}
"""Rules that change each number by itself."""

WHOLE: dict[str, Callable[[], Any]] = {
    "Adafactor": lambda: own.Adafactor(0.1),
    "Lamb": lambda: own.Lamb(0.1),
    "Muon": lambda: own.Muon(0.1),
    "optax.adafactor": lambda: optax.adafactor(0.1, min_dim_size_to_factor=4),
    "optax.lamb": lambda: optax.lamb(0.1),
    "optax.clip_by_global_norm": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.3)),
}
"""Rules that reduce over whole variables: those in shards are refused."""

TOGETHER = ("optax.clip_by_global_norm",)
"""Those that reduce over all variables, which then have to be on one server."""

RULES = ELEMENTWISE | WHOLE

SUMS_OF_STEPS = ("SGD, accumulated", "Adagrad, accumulated", "optax.apply_every", "optax.MultiSteps")
NOT_LAZY = (*WHOLE, *SUMS_OF_STEPS, *[name for name in ELEMENTWISE if "clipped" in name or "averaged" in name])
"""What `lazy_rows` says nothing about: gradients that are dense by then, sums of several steps, and averages that are put in the place of
whole variables."""

SEEDS = range(12)


class Drawn(NamedTuple):
    """A training.

    Attributes:
        tables: two, and a dense variable.
        batches: for each step the ids of three lookups: two of the first table, one of the second.
        shards, servers: how many.
    """

    tables: list[np.ndarray]
    batches: list[list[np.ndarray]]
    shards: int
    servers: int


def drawn(seed: int, most_shards: int = 5) -> Drawn:
    """Tables, ids and shards, the same for all optimizers, so that most of their steps is compiled once.

    Ids are from everywhere, few different ones, or of one end of the table alone; some of them are padding.
    """
    rng = np.random.default_rng(seed)
    rows = rng.integers(20, 40, 2)
    tables = [rng.normal(size=(int(n), width)).astype(np.float32) for n, width in zip(rows, (3, 2), strict=True)]
    tables.append(rng.normal(size=3).astype(np.float32))
    counts, shards = rng.integers(1, 7, 3), int(rng.integers(1, most_shards + 1))
    if seed % 3 == 0 and shards > 2:
        counts[2] = rows[1] // shards  # as many ids as a shard has rows

    def ids(count: int, of: int) -> np.ndarray:
        low, high = [(0, of), (0, 3), (of - 4, of), (of // 2, of // 2 + 1)][rng.integers(4)]
        found = rng.integers(low, high, count)
        return np.where(rng.random(count) < 0.2, -1, found).astype(np.int32)

    batches = [[ids(counts[0], rows[0]), ids(counts[1], rows[0]), ids(counts[2], rows[1])] for _ in range(int(rng.integers(3, 7)))]
    return Drawn(tables, batches, shards, int(rng.integers(1, 4)))


def loss_of(lookup: Callable[[Any, Any], Any], tables: Sequence[Any], dense: Any, ids: Sequence[Any]) -> Any:
    """Of rows [k, ...] that are zeros for padding."""
    first, second = tables
    found = (lookup(first, ids[0]) ** 2).sum() + (lookup(first, ids[1]) @ dense).sum()
    return found + (jnp.sin(lookup(second, ids[2])) * dense[:2]).sum() + (dense**2).sum()


def by_rows(run: Drawn, optimizer: Any, lazy: bool) -> list[np.ndarray]:
    """The tables and the dense variable after a training under parameter servers."""
    cluster = sd.Cluster({"worker": 1, "ps": run.servers}, numerics="eager")
    strategy = sd.ParameterServerStrategy(cluster, lambda shape, dtype: [run.shards if len(shape) > 1 else 1, *[1] * (len(shape) - 1)])
    with strategy.scope():
        first, second, dense = variables = [sd.Variable(value, name=f"v{number}") for number, value in enumerate(run.tables)]
        rule = sd.Optimizer(optimizer, lazy_rows=lazy)

    def looked_up(table: sd.Variable, ids: Any) -> Any:
        return sd.embedding_lookup_sparse(table, ids[:, None], combiner="sum")

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: loss_of(looked_up, (first, second), dense.value, ids), variables)()
        rule.apply_gradients(zip(gradients, variables, strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    for ids in run.batches:
        coordinator.schedule(step, args=(ids,))
    coordinator.join()
    assert [span for span in cluster.trace.spans if span.category == "read" and "rows" in span.facts]
    return [variable.numpy() for variable in variables]


def with_partner(run: Drawn) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """For each step the ids of two replicas, which are no padding."""
    batches = [[np.maximum(ids, 0) for ids in batch] for batch in run.batches]
    return list(zip(batches, [*batches[1:], batches[0]], strict=True))


def by_sums(run: Drawn, optimizer: Any, lazy: bool) -> list[np.ndarray]:
    """The tables and the dense variable after a training by two replicas."""
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        first, second, dense = variables = [sd.Variable(value, name=f"v{number}") for number, value in enumerate(run.tables)]
        rule = sd.Optimizer(optimizer, lazy_rows=lazy)

    def replica(*ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: loss_of(sd.embedding_lookup, (first, second), dense.value, ids), variables)()
        rule.apply_gradients(zip(gradients, variables, strict=True))

    step = sd.function(lambda *ids: strategy.run(replica, args=ids))
    for one, other in with_partner(run):
        step(*map(sd.PerReplica, zip(one, other, strict=True)))
    assert [span for span in strategy.cluster.trace.spans if span.name == "all_gather gradients"]
    return [variable.numpy() for variable in variables]


def densely(run: Drawn, optimizer: Any, lazy: bool, batches: Sequence[Sequence[Sequence[np.ndarray]]] = ()) -> list[np.ndarray]:
    """The same by JAX and the optimizer alone; where rows are lazy, what belongs to rows that were not asked for is put back.

    Args:
        batches: for each step the ids of each replica; default: one replica has those of the run.
    """

    def looked_up(table: Any, ids: Any) -> Any:
        return jnp.where((ids >= 0)[:, None], table[jnp.maximum(ids, 0)], 0.0)

    values = [jnp.asarray(value) for value in run.tables]
    state, update = rule_of(optimizer, values)
    for replicas in batches or [[ids] for ids in run.batches]:
        gradients = jax.grad(lambda all_of, own=replicas: sum(loss_of(looked_up, all_of[:2], all_of[2], ids) for ids in own))(values)
        new_values, new_state = update(values, state, gradients)
        if lazy:
            asked = [
                np.unique(np.concatenate(of_one))
                for of_one in ([part for ids in replicas for part in ids[:2]], [ids[2] for ids in replicas])
            ]
            new_values, new_state = (put_back(old, new, run, asked) for old, new in ((values, new_values), (state, new_state)))
        values, state = new_values, new_state
    return [np.asarray(value) for value in values]


def put_back(old: Any, new: Any, run: Drawn, asked: Sequence[np.ndarray]) -> Any:
    """Arrays of the shape of a table with their old rows where none was asked for."""
    shapes = [table.shape for table in run.tables[:2]]

    def kept(before: Any, after: Any) -> Any:
        if before.shape not in shapes:
            return after
        rows = np.isin(np.arange(before.shape[0]), asked[shapes.index(before.shape)])
        return jnp.where(rows[:, None], after, before)

    return jax.tree.map(kept, old, new)


def rule_of(optimizer: Any, values: list[Any]) -> tuple[Any, Callable[..., Any]]:
    """The first state of an optimizer, and a function (values, state, gradients) -> (new values, new state)."""
    if isinstance(optimizer, optax.GradientTransformation):

        def by_optax(values: Any, state: Any, gradients: Any) -> Any:
            updates, state = optimizer.update(gradients, state, values)
            return optax.apply_updates(values, updates), state

        return optimizer.init(values), by_optax
    variables = [keras.Variable(value, name=f"v{number}") for number, value in enumerate(values)]
    optimizer.build(variables)

    def by_keras(values: Any, state: Any, gradients: Any) -> Any:
        return optimizer.stateless_apply(state, gradients, values)

    return [variable.value for variable in optimizer.variables], by_keras


@pytest.fixture(autouse=True)
def small_tables_are_changed_in_place() -> Any:
    with patch.object(ledger_module, "TABLE_BYTES", 1):
        yield


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("name", "seed"), sampled([(name, seed) for name in RULES for seed in SEEDS], {("SGD, accumulated", 9)}))
def test_rows_change_what_dense_gradients_change(name: str, seed: int) -> None:
    run = drawn(seed, most_shards=1 if name in WHOLE else 5)
    run = run._replace(servers=1) if name in TOGETHER else run
    assert_equal(by_rows(run, RULES[name](), lazy=False), densely(run, RULES[name](), lazy=False))


@pytest.mark.parametrize(
    ("name", "seed"), sampled([(name, seed) for name in RULES if name not in NOT_LAZY for seed in SEEDS], {("Adam", 9)})
)
def test_lazy_rows_change_what_dense_gradients_change_in_these_rows_alone(name: str, seed: int) -> None:
    run = drawn(seed)
    assert_equal(by_rows(run, RULES[name](), lazy=True), densely(run, RULES[name](), lazy=True))


@pytest.mark.parametrize(("name", "seed"), sampled([(name, seed) for name in RULES for seed in SEEDS], {("Adagrad", 9)}))
def test_sums_of_rows_change_what_dense_gradients_change(name: str, seed: int) -> None:
    run = drawn(seed)
    assert_equal(by_sums(run, RULES[name](), lazy=False), densely(run, RULES[name](), False, with_partner(run)))


@pytest.mark.parametrize(
    ("name", "seed"), sampled([(name, seed) for name in RULES if name not in NOT_LAZY for seed in SEEDS], {("RMSprop", 9)})
)
def test_lazy_sums_change_what_dense_gradients_change_in_these_rows_alone(name: str, seed: int) -> None:
    run = drawn(seed)
    assert_equal(by_sums(run, RULES[name](), lazy=True), densely(run, RULES[name](), True, with_partner(run)))


@pytest.mark.parametrize("name", sampled(list(WHOLE), {"Lamb"}))
def test_rules_of_whole_variables_refuse_shards(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="reduces over whole variables"):
        by_rows(drawn(0)._replace(shards=2), WHOLE[name](), lazy=False)
