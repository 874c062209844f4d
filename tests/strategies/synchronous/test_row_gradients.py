"""Gradients of tables under synchronous strategies: rows travel, in the bytes and the seconds of an all-gather, with exact numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.collectives.compression import Fp16
from simdist.hardware import Device, Network
from tests.strategies.conftest import bytes_sent

NUM_ROWS, WIDTH = 300, 4
ROW_BYTES = WIDTH * 4 + 8
FREE = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)

RNG = np.random.default_rng(0)
START = RNG.normal(size=(NUM_ROWS, WIDTH)).astype(np.float32)
IDS = RNG.integers(0, 40, (12, 3)).astype(np.int32)  # many of them equal, also of different replicas
COEFFICIENTS = RNG.normal(size=(12, 3, WIDTH)).astype(np.float32)


class Outcome(NamedTuple):
    table: np.ndarray
    cluster: sd.Cluster
    strategy: Any


def replica_of(table: sd.Variable, optimizer: sd.Optimizer, change: Callable[[Any], Any] = lambda gradient: gradient) -> Any:
    """What a replica does for the loss ``sum(table[ids] * coefficients)``: the rows of its gradient are the coefficients, exactly."""

    def replica(ids: Any, coefficients: Any) -> Any:
        value, (gradient,) = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) * coefficients).sum(), [table])()
        optimizer.apply_gradients([(change(gradient), table)])
        return value

    return replica


def train(
    strategy: Any, ids: np.ndarray = IDS, coefficients: np.ndarray = COEFFICIENTS, steps: int = 1, batch: int | None = None, **options: Any
) -> Outcome:
    """Steps of SGD from `START`, with the rows of all batches; `options` are those of `replica_of`."""
    with strategy.scope():
        table, optimizer = sd.Variable(START, name="table"), options.pop("optimizer", None) or sd.Optimizer(keras.optimizers.SGD(1.0))
    replica = replica_of(table, optimizer, **options)
    step = sd.function(lambda iterator: strategy.run(replica, args=next(iterator)))
    dataset = sd.Dataset.from_tensor_slices((ids, coefficients)).batch(batch or len(ids)).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    for _ in range(steps):
        step(iterator)
    cluster = strategy.cluster
    return Outcome(np.zeros(0) if cluster.engine.numerics == "off" else table.numpy(), cluster, strategy)


def workers(count: int, numerics: str = "deferred", engine: dict[str, Any] | None = None, **options: Any) -> Any:
    return sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": count}, numerics=numerics, **(engine or {})), **options)


def collectives_of(cluster: sd.Cluster) -> set[tuple[str, int]]:
    return {(span.name, span.facts["bytes"]) for span in cluster.trace.spans if span.category == "collective"}


def row_sums(ids: np.ndarray = IDS, coefficients: np.ndarray = COEFFICIENTS) -> np.ndarray:
    """Rows added in the order of the batch, which is that of the replicas and of their ids."""
    total = np.zeros((NUM_ROWS, WIDTH), np.float32)
    np.add.at(total, ids.reshape(-1), coefficients.reshape(-1, WIDTH))
    return total


# -- bytes and seconds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_bytes_are_those_of_the_rows_of_an_all_gather(replicas: int) -> None:
    cluster = train(workers(replicas, numerics="off"), steps=3).cluster
    ids_of_each = IDS.size // replicas
    assert collectives_of(cluster) == {("all_gather gradients", ids_of_each * ROW_BYTES)}
    assert bytes_sent(cluster) == 3 * replicas * (replicas - 1) * ids_of_each * ROW_BYTES


def test_seconds_are_those_of_a_ring_all_gather_whatever_the_size_of_the_table() -> None:
    latency_s, bandwidth, replicas = 1e-3, 1e6, 4
    network = Network(bandwidth=bandwidth, latency=latency_s)
    cluster = sd.Cluster({"worker": replicas}, hardware=FREE, network=network, numerics="off")
    train(sd.MultiWorkerMirroredStrategy(cluster))
    spans = [span for span in cluster.trace.spans if span.category == "collective"]
    seconds = (replicas - 1) * (latency_s + IDS.size / replicas * ROW_BYTES / bandwidth)
    assert [span.end_s - span.start_s for span in spans] == pytest.approx([seconds] * replicas, rel=1e-9)


def test_dense_gradients_travel_as_the_options_say_and_rows_come_last() -> None:
    strategy = workers(
        2, communication_options=sd.CommunicationOptions(implementation=sd.CommunicationImplementation.RING, bytes_per_pack=8)
    )
    with strategy.scope():
        variables = [sd.Variable(START, name="table"), sd.Variable(np.ones(WIDTH)), sd.Variable(np.ones((WIDTH, 1)))]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    def replica(ids: Any) -> None:
        table, scale, w = variables
        _, gradients = sd.value_and_grad(lambda: ((sd.embedding_lookup(table, ids) * scale.value) @ w.value).sum(), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    strategy.run(replica, args=(np.array([1, 2, 2], np.int32),))
    spans = [span for span in strategy.cluster.trace.spans if span.category == "collective" and span.lane.startswith("worker:0")]
    # Packs in the order of the trace: the last variable first.
    found = [(span.name, span.facts["algorithm"], span.facts["bytes"]) for span in sorted(spans, key=lambda span: span.start_s)]
    dense = ("all_reduce gradients", "ring", WIDTH * 4)
    assert found == [dense, dense, ("all_gather gradients", "ring", 3 * ROW_BYTES)]


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_rows_are_added_in_the_order_of_replicas_and_ids(replicas: int) -> None:
    found = train(workers(replicas)).table
    assert found.tobytes() == (START - row_sums()).tobytes()


def test_of_several_lookups_the_last_comes_first() -> None:
    strategy = workers(2)
    with strategy.scope():
        table, optimizer = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))

    def replica(ids: Any, rows: Any) -> None:
        def loss() -> Any:
            return sum((sd.embedding_lookup(table, ids[:, number]) * rows[:, number]).sum() for number in range(3))

        _, gradients = sd.value_and_grad(loss, [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    parts = [sd.PerReplica(np.split(array, 2)) for array in (IDS, COEFFICIENTS)]
    strategy.run(replica, args=tuple(parts))
    ids, rows = (np.concatenate([part[:, number] for part in np.split(array, 2) for number in (2, 1, 0)]) for array in (IDS, COEFFICIENTS))
    assert table.numpy().tobytes() == (START - row_sums(ids, rows)).tobytes()


@pytest.mark.parametrize("numerics", ["eager", "loop", "replay"])
@pytest.mark.sample(2)
def test_every_plan_of_numerics_gives_the_same_bits(numerics: str) -> None:
    adam = sd.Optimizer(keras.optimizers.Adam(0.1))
    usual = train(workers(2), steps=6, batch=6, optimizer=adam)
    found = train(workers(2, numerics), steps=6, batch=6, optimizer=sd.Optimizer(keras.optimizers.Adam(0.1)))
    assert found.table.tobytes() == usual.table.tobytes()
    if numerics == "replay":
        plans = found.cluster.engine.world.ledger.plans  # type: ignore[attr-defined]
        assert plans.machine.compilations and not plans.refuted
    assert found.cluster.trace.digest() == usual.cluster.trace.digest()


@pytest.mark.parametrize("engine", [{"engine": "in_process"}, {"engine": "in_process", "isolated": True}])
def test_every_engine_gives_the_same_bits(engine: dict[str, Any]) -> None:
    assert train(workers(3, engine=engine)).table.tobytes() == train(workers(3)).table.tobytes()


def test_two_towers_learn_as_plain_jax_does() -> None:
    rng = np.random.default_rng(7)
    users, items = (rng.normal(size=(rows, WIDTH)).astype(np.float32) for rows in (NUM_ROWS, NUM_ROWS + 50))
    pairs, stars = rng.integers(0, NUM_ROWS, (40, 2)).astype(np.int32), rng.normal(size=40).astype(np.float32)
    strategy = workers(4)
    with strategy.scope():
        towers = [sd.Variable(users, name="users"), sd.Variable(items, name="items")]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.5, momentum=0.9))

    def replica(batch: Any) -> Any:
        ids, y = batch

        def loss() -> Any:
            left, right = sd.embedding_lookup(towers[0], ids[:, 0]), sd.embedding_lookup(towers[1], ids[:, 1])
            return (((left * right).sum(1) - y) ** 2).sum() / 8

        value, gradients = sd.value_and_grad(loss, towers)()
        optimizer.apply_gradients(zip(gradients, towers, strict=True))
        return value

    step = sd.function(lambda batch: strategy.run(replica, args=(batch,)))
    dataset = strategy.experimental_distribute_dataset(sd.Dataset.from_tensor_slices((pairs, stars)).batch(8))
    losses = [float(sum(strategy.local_results(step(batch)))) for batch in dataset]

    def plain(tables: list[Any], ids: Any, y: Any) -> Any:
        return (((tables[0][ids[:, 0]] * tables[1][ids[:, 1]]).sum(1) - y) ** 2).mean()

    tables, speeds, expected = [jnp.asarray(users), jnp.asarray(items)], [0.0, 0.0], []
    for first in range(0, 40, 8):
        value, gradients = jax.value_and_grad(plain)(tables, pairs[first : first + 8], stars[first : first + 8])
        speeds = [0.9 * speed - 0.5 * gradient for speed, gradient in zip(speeds, gradients, strict=True)]
        tables, expected = [table + speed for table, speed in zip(tables, speeds, strict=True)], [*expected, float(value)]
    np.testing.assert_allclose(losses, expected, rtol=2e-6)
    for tower, table in zip(towers, tables, strict=True):
        np.testing.assert_allclose(tower.numpy(), table, rtol=0, atol=2e-6)
    assert collectives_of(strategy.cluster) == {("all_gather gradients", 2 * ROW_BYTES)}


# -- the choice --------------------------------------------------------------------------------------------------------


def test_a_table_smaller_than_the_rows_stays_in_the_pack_of_the_others() -> None:
    strategy = workers(2)
    with strategy.scope():
        table, w = sd.Variable(START[:20], name="table"), sd.Variable(np.ones((WIDTH, 1)))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    def replica(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) @ w.value).sum(), [table, w])()
        optimizer.apply_gradients(zip(gradients, [table, w], strict=True))

    strategy.run(replica, args=(np.arange(14, dtype=np.int32),))
    assert collectives_of(strategy.cluster) == {("all_reduce gradients", (20 + 1) * WIDTH * 4)}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((5, 0, 2), ("all_gather gradients", 5 * ROW_BYTES)),
        ((190, 3, 3), ("all_reduce gradients", NUM_ROWS * WIDTH * 4)),  # the first alone would send the table
    ],
)
def test_replicas_may_have_different_numbers_of_ids(counts: tuple[int, ...], expected: tuple[str, int]) -> None:
    strategy = workers(len(counts))
    with strategy.scope():
        table, optimizer = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))
    rng = np.random.default_rng(2)
    ids = [rng.integers(0, NUM_ROWS, count).astype(np.int32) for count in counts]
    rows = [rng.integers(-9, 9, (count, WIDTH)).astype(np.float32) for count in counts]
    strategy.run(replica_of(table, optimizer), args=(sd.PerReplica(ids), sd.PerReplica(rows)))
    np.testing.assert_allclose(table.numpy(), START - row_sums(np.concatenate(ids), np.concatenate(rows)), rtol=0, atol=1e-5)
    assert collectives_of(strategy.cluster) == {expected}


@pytest.mark.parametrize("engine", [{}, {"engine": "in_process"}], ids=["simulated", "in process"])
def test_a_replica_may_have_a_dense_gradient(engine: dict[str, Any]) -> None:
    def change(gradient: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        return gradient * 2.0 if context.replica_id_in_sync_group == 1 else gradient

    found = train(workers(2, engine=engine), change=change)
    first, second = (row_sums(ids, rows) for ids, rows in zip(np.split(IDS, 2), np.split(COEFFICIENTS, 2), strict=True))
    np.testing.assert_allclose(found.table, START - (first + 2 * second), rtol=0, atol=1e-5)


def lookups_of_two_tables(strategy: Any) -> tuple[list[bytes], sd.Cluster]:
    """The first replica looks up rows of one table, the second of another."""
    with strategy.scope():
        tables, optimizer = [sd.Variable(START) for _ in range(2)], sd.Optimizer(keras.optimizers.SGD(1.0))

    def replica() -> None:
        context = sd.get_replica_context()
        assert context is not None
        table = tables[context.replica_id_in_sync_group]
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, np.array([4], np.int32)).sum(), tables)()
        optimizer.apply_gradients(zip(gradients, tables, strict=True))

    strategy.run(replica)
    return [table.numpy().tobytes() for table in tables], strategy.cluster


def test_gradients_are_dense_where_replicas_look_up_different_tables() -> None:
    found, cluster = lookups_of_two_tables(workers(2))
    expected = START.copy()
    expected[4] -= 1
    assert found == [expected.tobytes()] * 2
    assert collectives_of(cluster) == {("all_reduce gradients", 2 * NUM_ROWS * WIDTH * 4)}


def test_mains_that_look_up_different_tables_read_what_to_do() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"table\.value\[ids\], in all of them"):
        launched(lambda: lookups_of_two_tables(sd.MultiWorkerMirroredStrategy()))


def test_each_update_of_a_step_counts_its_own_ids() -> None:
    # Of each update rows are fewer bytes than the table; of both together they would not be.
    strategy = workers(2)
    with strategy.scope():
        table, optimizer = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))
    replica, ids, rows = replica_of(table, optimizer), np.arange(120, dtype=np.int32), np.ones((120, WIDTH), np.float32)
    strategy.run(lambda: [replica(ids, rows) for _ in range(2)])
    assert collectives_of(strategy.cluster) == {("all_gather gradients", 120 * ROW_BYTES)}


@pytest.mark.parametrize(
    "change", [lambda gradient: gradient * 0.5, lambda gradient: jnp.clip(gradient, -0.5, 0.5)], ids=["scaled", "clipped"]
)
def test_a_gradient_that_is_changed_first_travels_dense(change: Callable[[Any], Any]) -> None:
    found = train(workers(2), change=change)
    parts = [row_sums(ids, rows) for ids, rows in zip(np.split(IDS, 2), np.split(COEFFICIENTS, 2), strict=True)]
    np.testing.assert_allclose(found.table, START - sum(np.asarray(change(part)) for part in parts), rtol=0, atol=1e-6)
    assert collectives_of(found.cluster) == {("all_reduce gradients", NUM_ROWS * WIDTH * 4)}


def test_a_gradient_that_is_returned_as_well_is_dense_there_and_travels_as_rows() -> None:
    strategy = workers(2)
    with strategy.scope():
        table, optimizer = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))

    def replica(ids: Any) -> Any:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return gradients[0]

    gradient = strategy.local_results(strategy.run(replica, args=(np.array([3, 3, 8], np.int32),)))[0]
    expected = np.zeros((NUM_ROWS, WIDTH), np.float32)
    expected[3], expected[8] = 2, 1
    assert np.asarray(gradient).tolist() == expected.tolist()
    assert table.numpy().tobytes() == (START - 2 * expected).tobytes()
    assert collectives_of(strategy.cluster) == {("all_gather gradients", 3 * ROW_BYTES)}


@pytest.mark.parametrize("options", [{"global_clipnorm": 0.5}, {"gradient_accumulation_steps": 2}, {"loss_scale_factor": 4.0}], ids=str)
def test_optimizers_do_to_the_sum_what_they_do_on_one_device(options: dict[str, Any]) -> None:
    def trained(strategy: Any) -> Outcome:
        return train(strategy, steps=3, optimizer=sd.Optimizer(keras.optimizers.SGD(1.0, **options)))

    found = trained(workers(3))
    np.testing.assert_allclose(found.table, trained(sd.OneDeviceStrategy()).table, rtol=0, atol=2e-6)
    assert collectives_of(found.cluster) == {("all_gather gradients", 12 * ROW_BYTES)}


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (lambda: workers(2, communication_options=sd.CommunicationOptions(compression=Fp16())), "all_reduce gradients"),
        (lambda: workers(2, sync_every=2), "all_reduce variables"),
        (lambda: sd.CentralStorageStrategy(2), "all_reduce gradients"),
    ],
    ids=["compressed", "local steps", "one device adds"],
)
def test_where_rows_cannot_be_gathered_gradients_travel_as_before(strategy: Callable[[], Any], name: str) -> None:
    found = train(strategy(), steps=2)
    assert {of_one for of_one, _ in collectives_of(found.cluster)} == {name}


def test_rows_of_those_that_came_stand_for_those_of_backups() -> None:
    # All replicas have the same rows, so that it does not matter which one is dropped.
    strategy = workers(3, backup_workers=1)
    found = train(strategy, np.tile(IDS[:4], (3, 1)), np.tile(COEFFICIENTS[:4], (3, 1, 1)))
    np.testing.assert_allclose(found.table, START - 3 * row_sums(IDS[:4], COEFFICIENTS[:4]), rtol=0, atol=1e-5)
    assert collectives_of(found.cluster) == {("all_gather gradients", 12 * ROW_BYTES)}


# -- survivors, and a main for each worker ------------------------------------------------------------------------------


def test_survivors_repeat_a_step_with_larger_parts() -> None:
    def run(crashes: bool) -> Outcome:
        strategy = workers(3, on_failure="continue")
        if crashes:
            strategy.cluster.faults.crash(task="worker:1", after_steps=2)
        return train(strategy, steps=4, batch=6)

    found, expected = run(crashes=True), run(crashes=False)
    assert found.strategy.num_replicas_in_sync == 2
    np.testing.assert_allclose(found.table, expected.table, rtol=0, atol=2e-6)
    assert collectives_of(found.cluster) == {("all_gather gradients", 6 * ROW_BYTES), ("all_gather gradients", 9 * ROW_BYTES)}


def launched(main: Callable[[], Any], count: int = 2) -> Any:
    cluster = sd.Cluster({"worker": count})
    run = cluster.launch(main)
    run.join()
    return run.results, cluster


def test_mains_and_one_program_give_the_same_bits() -> None:
    results, cluster = launched(lambda: train(sd.MultiWorkerMirroredStrategy(), steps=2, batch=6).table.tobytes())
    assert set(results.values()) == {train(workers(2), steps=2, batch=6).table.tobytes()}
    assert ("all_gather gradients", 9 * ROW_BYTES) in collectives_of(cluster)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((2, 5), ("all_gather gradients", 5 * ROW_BYTES)), ((250, 1), ("all_reduce gradients", NUM_ROWS * WIDTH * 4))],
)
def test_mains_need_not_know_how_many_ids_the_others_have(counts: tuple[int, int], expected: tuple[str, int]) -> None:
    def main() -> bytes:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            table, optimizer = sd.Variable(START, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))
        count = counts[strategy.cluster_resolver.task_id or 0]
        strategy.run(replica_of(table, optimizer), args=(np.arange(count, dtype=np.int32), np.ones((count, WIDTH), np.float32)))
        return table.numpy().tobytes()

    results, cluster = launched(main)
    total = np.sum([np.arange(NUM_ROWS) < count for count in counts], 0).astype(np.float32)
    assert set(results.values()) == {(START - total[:, None]).tobytes()}
    assert expected in collectives_of(cluster)
