"""What users of TensorFlow miss in its parameter servers (CONFORMANCE C3, C6 to C10, C13, C17, C22, C53)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import jax.core
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import UnavailableError

X = np.arange(12, dtype=np.float32)[:, None] / 12
ROWS = sd.Dataset.from_tensor_slices((X, 2 * X))


def on_servers(workers: int = 2, **options: Any) -> tuple[sd.Cluster, Any]:
    cluster = sd.Cluster({"worker": workers, "ps": 2}, seed=0)
    with sd.ParameterServerStrategy(cluster).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], **options)
    return cluster, model


class Counting(keras.callbacks.Callback):
    """The losses that hooks of batches see, by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: dict[int, float] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses[batch] = logs["loss"]


def test_c03_a_dead_server_is_noticed_without_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPC_FAIL_FAST", raising=False)
    cluster, model = on_servers()
    cluster.faults.crash("ps:1", at=0.001)
    with pytest.raises(UnavailableError, match="ps:1 is down"):
        model.fit(ROWS.batch(2), epochs=50, verbose=0)
    assert cluster.now < 1.0 and "GRPC_FAIL_FAST" not in os.environ


def test_c06_each_worker_knows_its_pipeline_and_reads_its_part() -> None:
    contexts: dict[int, int] = {}

    def part(context: sd.InputContext) -> sd.Dataset:
        contexts[context.input_pipeline_id] = context.num_input_pipelines
        return sd.Dataset.range(6).shard(context.num_input_pipelines, context.input_pipeline_id).batch(1)

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(part)))
    step = sd.function(lambda iterator: next(iterator).sum(), seconds=1.0)
    rows = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(6)])
    assert contexts == {0: 3, 1: 3, 2: 3} and sorted(map(int, rows)) == [0, 1, 2, 3, 4, 5]


def test_c07_evaluation_counts_each_row_once_without_an_option() -> None:
    cluster, model = on_servers(3)
    cluster.faults.crash("worker:1", at=0.0003, restart_after=0.001)
    assert model.evaluate(ROWS.batch(5), verbose=0, return_dict=True)["mae"] == pytest.approx(float(np.mean(2 * X)), rel=1e-6)


def test_c08_data_with_an_end_need_no_number_of_steps() -> None:
    _, model = on_servers()
    counting = Counting()
    history = model.fit(ROWS.batch(2), epochs=3, verbose=0, callbacks=[counting]).history
    assert len(history["loss"]) == 3 and int(model.optimizer.iterations) == 18 and sorted(counting.losses) == list(range(6))


def test_c09_hooks_of_batches_see_numbers_of_closures_that_have_ended() -> None:
    _, model = on_servers(1)
    counting = Counting()
    model.fit(ROWS.batch(4), verbose=0, callbacks=[counting])
    kernel = bias = 0.0
    total, expected = 0.0, {}
    for number in range(3):  # the mean over the rows so far, each batch before its update
        x = X[4 * number : 4 * number + 4, 0].astype(np.float64)
        error = kernel * x + bias - 2 * x
        total += np.sum(error**2)
        expected[number] = total / (4 * number + 4)
        kernel, bias = kernel - 0.1 * np.mean(2 * error * x), bias - 0.1 * np.mean(2 * error)
    assert counting.losses == pytest.approx(expected, rel=1e-5)


def test_c10_python_runs_at_each_step_where_asked_and_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[float] = []

    class Looking(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            if not isinstance(x, (keras.KerasTensor, jax.core.Tracer)):
                seen.append(float(x[0, 0]))
            return x

    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})).scope():
        model = keras.Sequential([keras.Input((1,)), Looking(), keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
    seen.clear()
    model.fit(ROWS.batch(4), verbose=1)
    assert seen == pytest.approx([0.0, 4 / 12, 8 / 12]) and "3/3" in capsys.readouterr().out


def test_c13_each_server_writes_its_shards_itself(tmp_path: Path) -> None:
    def on(shards: int) -> tuple[sd.Cluster, sd.Variable]:
        cluster = sd.Cluster({"worker": 1, "ps": 2})
        with sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(shards)).scope():
            return cluster, sd.Variable(np.zeros(6, np.float32), name="table")

    cluster, table = on(2)
    table.assign(np.arange(6, dtype=np.float32))
    path = sd.Checkpoint(table=table).save(tmp_path / "p", sd.CheckpointOptions(writers="owners"))
    assert {span.lane for span in cluster.trace.spans.where(category="checkpoint")} >= {"ps:0", "ps:1"}
    _, other = on(3)
    sd.Checkpoint(table=other).restore(path).assert_consumed()
    assert other.numpy().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_c17_a_worker_computes_on_the_device_that_it_is_said_to_have() -> None:
    took_s: list[float] = []
    for device in (sd.hardware.laptop_cpu, sd.hardware.v100):
        cluster = sd.Cluster({"worker": 1, "ps": 1}, hardware={"worker": device})
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        coordinator.schedule(sd.function(lambda x: (x @ x @ x).sum()), args=(np.ones((512, 512), np.float32),))
        coordinator.join()
        (span,) = [span for span in cluster.trace.spans.where(category="compute") if span.lane == "worker:0"]
        took_s.append(span.end_s - span.start_s)
    assert took_s[1] < took_s[0] / 5


def test_c22_the_checkpoint_of_each_epoch_has_the_weights_of_its_end(tmp_path: Path) -> None:
    _, model = on_servers()
    ends: list[Any] = []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(model.get_weights()))
    save = keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.weights.h5"), save_weights_only=True)
    model.fit(ROWS.batch(2), epochs=2, verbose=0, callbacks=[keep, save])
    for number, weights in enumerate(ends, 1):
        model.load_weights(tmp_path / f"{number}.weights.h5")
        assert [part.tolist() for part in model.get_weights()] == [part.tolist() for part in weights]


def test_c53_no_increment_of_another_worker_is_lost() -> None:
    _, model = on_servers(4)
    model.fit(ROWS.batch(1).repeat(), epochs=5, steps_per_epoch=120, verbose=0)
    assert int(model.optimizer.iterations) == 600


def test_c53_the_weights_are_the_sum_of_the_updates_of_all_workers() -> None:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 4, "ps": 2}, seed=0)).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.5), lambda y, predicted: predicted)  # its gradient depends on no weight
    rows = sd.Dataset.from_tensor_slices((np.ones((8, 1), np.float32), np.zeros((8, 1), np.float32)))
    model.fit(rows.batch(1).repeat(), epochs=2, steps_per_epoch=60, verbose=0)
    assert [float(part.reshape(())) for part in model.get_weights()] == [-60.0, -60.0]
