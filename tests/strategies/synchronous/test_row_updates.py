"""Updates of tables under synchronous strategies: rows that have a gradient change, with the numbers that an update of all rows gives.

They have its bits, too, unless a rule takes a root: XLA's code of reciprocal roots rounds some numbers otherwise in arrays of other
lengths (JAX 0.12).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import DenseUpdateWarning
from simdist.ledger import ledger as ledger_module
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.replica_runtime import SimulatedReplica
from simdist.variables import row_rule
from simdist.variables.optimizer_rule import OptimizerRule

NUM_ROWS, WIDTH = 300, 4
START = np.random.default_rng(0).normal(size=(NUM_ROWS, WIDTH)).astype(np.float32)
SLOW_MEMORY = sd.hardware.Device(flops=1e30, memory_bandwidth=1e6, launch_overhead=0.0)

LAST_DIGITS: Any = {"rtol": 1e-6, "atol": 1e-7}

Ids = Sequence[np.ndarray]
"""Of each replica."""


@pytest.fixture(autouse=True)
def small_tables_are_changed_in_place() -> Iterator[None]:
    with patch.object(ledger_module, "TABLE_BYTES", 1):
        yield


class Outcome(NamedTuple):
    """The table, the optimizer's slots of it, and what else was trained."""

    values: list[np.ndarray]
    cluster: sd.Cluster
    step: Any  # what is known of its programs goes with it

    @property
    def bits(self) -> list[bytes]:
        return [value.tobytes() for value in self.values]


def drawn(steps: int, counts: Sequence[int] = (6, 6), of: int = 30, seed: int = 1) -> list[Ids]:
    """For each step the ids of each replica: many of them equal, also of different replicas."""
    rng = np.random.default_rng(seed)
    return [[rng.integers(0, of, count).astype(np.int32) for count in counts] for _ in range(steps)]


def train(optimizer: Any, batches: Sequence[Ids], num_rows: int = NUM_ROWS, width: int = WIDTH, **options: Any) -> Outcome:
    """Steps of a model with a table and a dense variable; options are those of the cluster."""
    cluster = sd.Cluster({"worker": len(batches[0])}, **options)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        table = sd.Variable(np.resize(START, (num_rows, width)), name="table")
        dense = sd.Variable(np.linspace(-1, 1, width, dtype=np.float32), name="dense")
        rule = optimizer if isinstance(optimizer, sd.Optimizer) else sd.Optimizer(optimizer)

    def replica(ids: Any) -> None:
        def loss() -> Any:
            rows = sd.embedding_lookup(table, ids)
            return (rows**2 * dense.value).sum()

        _, gradients = sd.value_and_grad(loss, [table, dense])()
        rule.apply_gradients(zip(gradients, [table, dense], strict=True))

    step = sd.function(lambda ids: strategy.run(replica, args=(ids,)))
    for ids in batches:
        step(sd.PerReplica(ids))
    if cluster.engine.numerics == "off":
        return Outcome([], cluster, step)
    slots = [slot for slot in getattr(rule.wrapped, "variables", ()) if slot.shape == table.shape]
    return Outcome([table.numpy(), dense.numpy(), *(np.asarray(slot) for slot in slots)], cluster, step)


def densely(optimizer: Any, batches: Sequence[Ids], **options: Any) -> Outcome:
    """The same, where no rule leaves rows alone."""
    with patch.object(OptimizerRule, "changes_rows_alone", lambda *_: False):
        return train(optimizer, batches, **options)


def seconds_of_updates(outcome: Outcome) -> list[float]:
    return [span.end_s - span.start_s for span in outcome.cluster.trace.spans if span.category == "apply"]


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_rows_have_the_bits_of_tables() -> None:
    batches = drawn(3, (5, 0, 7))
    assert train(keras.optimizers.SGD(0.3), batches).bits == densely(keras.optimizers.SGD(0.3), batches).bits


def test_rows_have_the_numbers_of_tables_where_a_rule_takes_roots() -> None:
    batches = drawn(3)
    for one, other in zip(*(run(keras.optimizers.Adagrad(0.3), batches).values for run in (train, densely)), strict=True):
        np.testing.assert_allclose(one, other, **LAST_DIGITS)


def test_adagrad_is_that_of_numpy() -> None:
    batches = drawn(3)
    found = train(keras.optimizers.Adagrad(0.3, epsilon=1e-7), batches).values
    table, dense, sums = START.copy(), np.linspace(-1, 1, WIDTH, dtype=np.float32), np.full((NUM_ROWS, WIDTH), 0.1)
    sum_of_dense = np.full(WIDTH, 0.1)
    for replicas in batches:
        gradient, of_dense = np.zeros((NUM_ROWS, WIDTH)), np.zeros(WIDTH)
        for ids in replicas:
            np.add.at(gradient, ids, 2 * table[ids] * dense)
            of_dense += (table[ids] ** 2).sum(0)
        sums, sum_of_dense = sums + gradient**2, sum_of_dense + of_dense**2
        table, dense = table - 0.3 * gradient / np.sqrt(sums + 1e-7), dense - 0.3 * of_dense / np.sqrt(sum_of_dense + 1e-7)
    for one, other in zip(found, (table, dense, sums), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("numerics", ["loop", "replay"])
@pytest.mark.sample(2)
def test_every_plan_of_numerics_gives_the_same_bits(numerics: str) -> None:
    batches = drawn(12)
    usual, found = (train(keras.optimizers.Adagrad(0.3), batches, numerics=own) for own in ("deferred", numerics))
    assert found.bits == usual.bits
    assert found.cluster.trace.digest() == usual.cluster.trace.digest()
    if numerics == "replay":
        plans = found.cluster.engine.world.ledger.plans  # type: ignore[attr-defined]
        assert plans.machine.compilations and not plans.refuted


def test_tasks_with_memories_of_their_own_change_the_same_rows() -> None:
    batches, lazy = drawn(2), lambda: sd.Optimizer(keras.optimizers.SGD(0.3, momentum=0.9), lazy_rows=True)
    assert train(lazy(), batches, engine="in_process", isolated=True).bits == train(lazy(), batches).bits


def test_ids_that_are_no_rows_have_no_gradient_and_those_below_0_count_from_the_end() -> None:
    batches: list[Ids] = [[np.array([-1, 4, NUM_ROWS + 3], np.int32), np.array([NUM_ROWS - 1, -NUM_ROWS - 1, 9], np.int32)]]
    found, expected = train(keras.optimizers.SGD(0.3), batches), densely(keras.optimizers.SGD(0.3), batches)
    np.testing.assert_array_equal(found.values[0], expected.values[0])
    assert np.flatnonzero((found.values[0] != START).any(1)).tolist() == [4, 9, NUM_ROWS - 1]


def test_two_updates_in_one_step_change_the_rows_of_each() -> None:
    def trained(train_in: Callable[[], Any]) -> np.ndarray:
        strategy = sd.MirroredStrategy(2)
        with strategy.scope():
            table, rule = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.Adagrad(0.5))

        def replica(ids: Any) -> None:
            for own in (ids[:3], ids[2:]):
                _, gradients = sd.value_and_grad(lambda own=own: (sd.embedding_lookup(table, own) ** 2).sum(), [table])()
                rule.apply_gradients(zip(gradients, [table], strict=True))

        with train_in():
            strategy.run(replica, args=(sd.PerReplica(drawn(1, (6, 6))[0]),))
        return table.numpy()

    alone = trained(lambda: patch.object(OptimizerRule, "changes_rows_alone", lambda *_: False))
    np.testing.assert_allclose(trained(warnings.catch_warnings), alone, **LAST_DIGITS)


# -- time and memory ---------------------------------------------------------------------------------------------------


def test_the_price_of_an_update_does_not_depend_on_the_rows_of_the_table() -> None:
    def seconds(optimizer: Any, num_rows: int, count: int = 6) -> float:
        return seconds_of_updates(train(optimizer, drawn(1, (count, count)), num_rows, numerics="off", hardware=SLOW_MEMORY))[0]

    small = seconds(keras.optimizers.Adagrad(0.3), 300)
    assert seconds(keras.optimizers.Adagrad(0.3), 3000) == pytest.approx(small, rel=1e-9)
    assert seconds(keras.optimizers.Adagrad(0.3), 3000, 12) == pytest.approx(2 * small, rel=0.1)
    assert seconds(keras.optimizers.Adam(0.3), 3000) > 9 * seconds(keras.optimizers.Adam(0.3), 300) > 50 * small


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_one_buffer_is_left_of_the_table_and_of_each_slot(numerics: str) -> None:
    cluster = train(keras.optimizers.Adagrad(0.3), drawn(12), numerics=numerics).cluster
    ledger = cluster.engine.world.ledger  # type: ignore[attr-defined]
    ledger.flush()
    files = [file for file in ledger.files.values() if file.by_rows]
    assert [len({*file.loose, *file.in_buffers}) for file in files] == [1]


def test_a_step_holds_the_rows_of_a_sum_and_no_table_of_it() -> None:
    def peak_bytes(run: Callable[..., Outcome]) -> int:
        outcome = run(keras.optimizers.SGD(0.3), drawn(1), numerics="off")
        return max(priced.peak_bytes for priced in outcome.cluster.engine.world.prices._known.values())  # type: ignore[attr-defined]

    # The sum has 12 rows at most, with their ids.
    assert peak_bytes(densely) - peak_bytes(train) >= NUM_ROWS * WIDTH * 4 - 12 * (WIDTH * 4 + 4)


# -- what else takes part ----------------------------------------------------------------------------------------------


def test_fit_changes_the_rows_of_a_batch() -> None:
    def fitted(strategy: Any) -> tuple[list[np.ndarray], sd.Cluster]:
        x, y = drawn(1, (20 * 3,), NUM_ROWS)[0][0].reshape(20, 3), np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
        with strategy.scope():
            layers = keras.layers
            embedding = layers.Embedding(NUM_ROWS, WIDTH, embeddings_initializer=keras.initializers.RandomNormal(seed=1))
            dense = layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=2))
            model = keras.Sequential([keras.Input((3,), dtype="int32"), embedding, layers.Flatten(), dense])
            model.compile(keras.optimizers.Adagrad(0.1), "mse")
        model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        return [np.asarray(weight) for weight in [*model.get_weights(), *model.optimizer.variables]], strategy.cluster

    (found, cluster), (expected, _) = fitted(sd.MirroredStrategy(2)), fitted(sd.OneDeviceStrategy())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)
    with patch.object(OptimizerRule, "changes_rows_alone", lambda *_: False):
        weights, slower = fitted(sd.MirroredStrategy(2))
    for one, other in zip(found, weights, strict=True):
        np.testing.assert_allclose(one, other, **LAST_DIGITS)
    assert cluster.now < slower.now


def test_a_checkpoint_has_the_slots_and_training_goes_on_from_it(tmp_path: Any) -> None:
    batches = drawn(4)

    def begun() -> tuple[Any, sd.Variable, sd.Optimizer, Any]:
        strategy = sd.MirroredStrategy(2)
        with strategy.scope():
            table, rule = sd.Variable(START, name="table"), sd.Optimizer(optax.adagrad(0.3))

        def replica(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) ** 2).sum(), [table])()
            rule.apply_gradients(zip(gradients, [table], strict=True))

        return sd.function(lambda ids: strategy.run(replica, args=(ids,))), table, rule, sd.Checkpoint(table=table, optimizer=rule)

    step, table, _, checkpoint = begun()
    for ids in batches[:2]:
        step(sd.PerReplica(ids))
    path = checkpoint.save(str(tmp_path / "saved"))
    for ids in batches[2:]:
        step(sd.PerReplica(ids))
    again, restored, rule, checkpoint = begun()
    rule.build([restored])
    checkpoint.restore(path).assert_consumed()
    for ids in batches[2:]:
        again(sd.PerReplica(ids))
    assert restored.numpy().tobytes() == table.numpy().tobytes()


def test_mains_whose_sums_are_rows_of_one_table_and_all_of_another() -> None:
    kinds: list[tuple[int, ...]] = []
    original = SimulatedReplica._site  # pyright: ignore[reportPrivateUsage]

    def seen(self: SimulatedReplica, part: Apply) -> Any:
        kinds.append(tuple([len(total.given) for total in part.sums]))
        return original(self, part)

    def main() -> list[bytes]:
        strategy = sd.MultiWorkerMirroredStrategy()
        rank = strategy.cluster_resolver.task_id or 0
        with strategy.scope():
            first, second = variables = [sd.Variable(START, name=name) for name in ("first", "second")]
            rule = sd.Optimizer(keras.optimizers.SGD(1.0))

        def replica(ids: Any) -> None:
            def loss() -> Any:
                return sd.embedding_lookup(first, ids).sum() + sd.embedding_lookup(second, np.array([3, 3, 5], np.int32)).sum()

            _, gradients = sd.value_and_grad(loss, variables)()
            rule.apply_gradients(zip(gradients, variables, strict=True))

        strategy.run(replica, args=(np.arange(2 + 3 * rank, dtype=np.int32),))
        return [variable.numpy().tobytes() for variable in variables]

    run = sd.Cluster({"worker": 2}).launch(main)
    with patch.object(SimulatedReplica, "_site", seen):
        run.join()
    expected = [START.copy(), START.copy()]
    for total, ids in zip(expected, ([0, 1, 0, 1, 2, 3, 4], [3, 3, 5, 3, 3, 5]), strict=True):
        np.subtract.at(total, ids, np.float32(1.0))
    one, other = run.results.values()
    assert one == other
    for found, total in zip(one, expected, strict=True):
        np.testing.assert_allclose(np.frombuffer(found, np.float32), total.reshape(-1), rtol=0, atol=1e-6)
    assert set(filter(None, kinds)) == {(1, 2)}  # a table, and ids and rows


def test_a_rule_that_changes_all_rows_of_a_large_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_rule, "LARGE_TABLE_BYTES", 1)
    with pytest.warns(DenseUpdateWarning, match="Adam also changes rows of 'table' without a gradient"):
        train(keras.optimizers.Adam(0.1), drawn(1), numerics="off")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(keras.optimizers.Adagrad(0.1), drawn(1), numerics="off")
