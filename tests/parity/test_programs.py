"""Programs of the tutorials that the system comes from, in our spelling, run as they stand.

Each runs on every engine that can: crashes and launched mains need tasks that run side by side in time, the simulated ones.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras


@pytest.fixture(params=["simulated", "in_process"])
def engine(request: pytest.FixtureRequest) -> str:
    """What carries the program out."""
    return request.param


def test_parameter_servers_with_keras_fit_through_a_crash(tmp_path: Path) -> None:
    d = str(tmp_path)
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=0)
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=2))

    def dataset_fn(input_context: sd.InputContext) -> sd.Dataset:
        batch_size = input_context.get_per_replica_batch_size(64)
        x, y = np.random.default_rng(0).random((640, 10)), np.random.default_rng(1).random((640, 1))
        ds = sd.Dataset.from_tensor_slices((x, y)).shuffle(640, seed=0).repeat()
        ds = ds.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return ds.batch(batch_size).prefetch(2)

    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(10)])
        model.compile(keras.optimizers.SGD(), loss="mse", steps_per_execution=10)

    callbacks = [
        keras.callbacks.TensorBoard(log_dir=d + "/log"),
        keras.callbacks.ModelCheckpoint(d + "/ckpt-{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.BackupAndRestore(d + "/backup"),
    ]
    cluster.faults.crash("worker:1", after_steps=25, restart_after=1.0)
    history = model.fit(sd.DatasetCreator(dataset_fn), epochs=5, steps_per_epoch=20, callbacks=callbacks, verbose=0)

    losses = history.history["loss"]
    assert len(losses) == 5
    assert losses[-1] < 0.6 * losses[0]
    assert [retry.lane for retry in cluster.trace.instants.where(category="retry")] == ["worker:1"]
    # The closure that died had done five of its ten steps; all ten were done again.
    assert int(model.optimizer.iterations.value) == 105
    assert [(r.variable, r.task) for r in strategy.placements() if r.kind == "parameter"] == [
        ("sequential/dense/kernel", "ps:0"),
        ("sequential/dense/bias", "ps:1"),
    ]
    assert sorted(path.name for path in tmp_path.glob("ckpt-*")) == [f"ckpt-{epoch}.weights.h5" for epoch in range(1, 6)]
    assert list((tmp_path / "backup").iterdir()) == []


def test_custom_loop_with_a_keras_model_and_a_metric(engine: str) -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=0, engine=engine)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        optimizer = sd.Optimizer(keras.optimizers.RMSprop(learning_rate=0.1))
        accuracy = keras.metrics.BinaryAccuracy(threshold=0.0)

    @sd.function
    def step_fn(iterator: object) -> object:
        def replica_fn(features: object, labels: object) -> object:
            def compute_loss() -> tuple[object, object]:
                pred = model(features, training=True)
                return keras.ops.mean(keras.losses.binary_crossentropy(labels, pred, from_logits=True)), pred

            (loss, pred), grads = sd.value_and_grad(compute_loss, model.trainable_variables, has_aux=True)()
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            accuracy.update_state(labels, pred)
            return loss

        features, labels = next(iterator)  # pyright: ignore[reportArgumentType]
        losses = strategy.run(replica_fn, args=(features, labels))
        return strategy.reduce(sd.ReduceOp.SUM, losses, axis=None)

    def dataset_fn(_: sd.InputContext) -> sd.Dataset:
        x = np.random.default_rng(0).normal(size=(200, 3))
        return sd.Dataset.from_tensor_slices((x, (x[:, :1] > 0) * 1.0)).shuffle(200, seed=0).batch(32).repeat()

    coordinator = sd.ClusterCoordinator(strategy)
    per_worker_dataset = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn))
    per_worker_iterator = iter(per_worker_dataset)
    accuracies = []
    for _ in range(4):
        accuracy.reset_state()
        for _ in range(5):
            coordinator.schedule(step_fn, args=(per_worker_iterator,))
        coordinator.join()
        accuracies.append(float(accuracy.result()))
    assert accuracies[-1] > 0.9
    assert float(coordinator.schedule(step_fn, args=(per_worker_iterator,)).fetch()) < 0.5
    assert step_fn.traces <= 2  # whole batches, and the last one of eight rows


# -- several workers, one main each; without its backup callback and its saving, which come with the training step ------


def build_and_compile_cnn_model() -> Any:
    model = keras.Sequential(
        [
            keras.Input((8, 8)),
            keras.layers.Reshape((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.2),
        metrics=["accuracy"],
    )
    return model


def digits_dataset(batch_size: int) -> sd.Dataset:
    """Ten prototypes with noise: digits that can be told apart."""
    rng = np.random.default_rng(0)
    prototypes, labels = rng.random((10, 8, 8)), np.arange(1280) % 10
    images = (prototypes[labels] + 0.1 * rng.normal(size=(1280, 8, 8))).astype(np.float32)
    return sd.Dataset.from_tensor_slices((images, labels)).shuffle(1280, seed=0).repeat().batch(batch_size)


def write_filepath(model_path: str, task_type: str, task_id: int) -> str:
    """The path itself for the chief, and a temporary one for the others, who remove it afterwards."""
    if (task_type, task_id) == ("worker", 0):
        return model_path
    Path(f"{model_path}.of_{task_type}_{task_id}").mkdir()
    return f"{model_path}.of_{task_type}_{task_id}/model.keras"


def several_workers(directory: Path, crash: tuple[str, int] | None) -> tuple[dict[str, list[float]], list[np.ndarray], dict[str, int]]:
    """History, the weights of the saved model, and restarts of the program with one main for each task."""
    model_path, backup_dir = str(directory / "model.keras"), str(directory / "backup")

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        global_batch_size = 64 * strategy.num_replicas_in_sync
        with strategy.scope():
            model = build_and_compile_cnn_model()
        ds = digits_dataset(global_batch_size)
        backup = keras.callbacks.BackupAndRestore(backup_dir)
        history = model.fit(ds, epochs=3, steps_per_epoch=20, verbose=0, callbacks=[backup])
        assert strategy.cluster_resolver is not None
        task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id
        path = write_filepath(model_path, task_type, task_id)
        model.save(path)
        if path != model_path:
            shutil.rmtree(Path(path).parent)
        return history.history

    cluster = sd.Cluster({"worker": 2}, seed=0)
    if crash is not None:
        cluster.faults.crash(crash[0], after_steps=crash[1], restart_after=1.0)
    run = cluster.launch(main, restart="always")
    run.join()
    assert run.results["worker:0"] == run.results["worker:1"]
    assert [path.name for path in directory.iterdir() if not path.is_dir()] == ["model.keras"]
    assert list((directory / "backup").iterdir()) == []
    weights = [np.asarray(variable.value) for variable in keras.models.load_model(model_path).weights]
    return run.results["worker:0"], weights, run.restarts


@pytest.mark.parametrize("task", sampled(["worker:0", "worker:1"], ["worker:0"]))
def test_several_workers_with_one_main_per_task(task: str, tmp_path: Path) -> None:
    history, weights, restarts = several_workers(tmp_path / "undisturbed", None)
    assert history["accuracy"][-1] > 0.9
    assert restarts == {"worker:0": 0, "worker:1": 0}
    again, weights_again, restarts = several_workers(tmp_path / task, (task, 52))  # in the middle of an epoch
    assert restarts == {"worker:0": 1, "worker:1": 1}
    assert again == history
    assert all(map(np.array_equal, weights_again, weights))


# -- one machine, several devices, custom loop; and every other synchronous strategy in its place -----------------------

OWN_CLUSTER = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(devices=4),
    "hierarchical copy": lambda: sd.MirroredStrategy(["gpu:0", "gpu:1"], cross_device_ops=sd.HierarchicalCopyAllReduce()),
    "central storage": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})),
}
GIVEN_CLUSTER = {
    "mirrored": lambda cluster: sd.MirroredStrategy(devices=4, cluster=cluster),
    "central storage": lambda cluster: sd.CentralStorageStrategy(["gpu:0", "gpu:1"], cluster=cluster),
    "workers": sd.MultiWorkerMirroredStrategy,
}


@pytest.mark.parametrize("name", OWN_CLUSTER)
def test_custom_loop_under_every_synchronous_strategy(name: str) -> None:
    custom_loop(OWN_CLUSTER[name]())


@pytest.mark.parametrize("name", GIVEN_CLUSTER)
@pytest.mark.sample(2)
def test_custom_loop_without_time(name: str) -> None:
    custom_loop(GIVEN_CLUSTER[name](sd.Cluster({"worker": 3}, engine="in_process")))


def custom_loop(strategy: Any) -> None:
    global_batch_size = 12
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        optimizer = sd.Optimizer(keras.optimizers.SGD())
    dataset = sd.Dataset.from_tensors(([1.0], [1.0])).repeat(1000).batch(global_batch_size)
    dist_dataset = strategy.distribute_dataset(dataset)

    @sd.function
    def train_step(dist_inputs: Any) -> Any:
        def step_fn(inputs: Any) -> Any:
            features, labels = inputs

            def compute_loss() -> Any:
                per_example = (model(features, training=True) - labels) ** 2
                return keras.ops.sum(per_example) / global_batch_size, per_example

            (_, per_example), grads = sd.value_and_grad(compute_loss, model.trainable_variables, has_aux=True)()
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            return per_example

        return strategy.reduce(sd.ReduceOp.MEAN, strategy.run(step_fn, args=(dist_inputs,)), axis=0)

    losses = [float(train_step(inputs)[0]) for inputs in dist_dataset]
    assert len(losses) == 84
    # One weight and one bias, both 0 at first: each step takes 4 % of the error away.
    np.testing.assert_allclose(losses, [0.96 ** (2 * step) for step in range(84)], rtol=2e-5)


@pytest.mark.sample
@pytest.mark.parametrize("kills", [False, True], ids=["undisturbed", "a worker dies in every epoch"])
@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # of `keras.Input`, where JAX has 32 bits
def test_lookup_tables_and_a_sharded_embedding_in_a_custom_loop(kills: bool, seed: int) -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=seed)
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=2))
    vocabulary = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
    with strategy.scope():
        feature_lookup = sd.StringLookup(vocabulary=vocabulary, mask_token=None)
        label_lookup = sd.StringLookup(vocabulary=["yes", "no"], num_oov_indices=0, mask_token=None)

    def dataset_fn(_: sd.InputContext) -> sd.Dataset:
        rng = np.random.default_rng(0)
        words = np.array([rng.choice(vocabulary, 3, replace=False) for _ in range(200)])
        labels = np.where((words == "avenger").any(axis=1), "yes", "no")[:, None]
        return (
            sd.Dataset.from_tensor_slices({"features": words, "label": labels})
            .map(lambda e: ({"features": feature_lookup(e["features"])}, label_lookup(e["label"])))
            .shuffle(200, seed=0)
            .batch(32)
            .repeat()
        )

    with strategy.scope():
        ids = keras.Input(shape=(3,), dtype="int64", name="features")
        table = keras.layers.Embedding(input_dim=len(feature_lookup.get_vocabulary()), output_dim=16384)
        pooled = keras.ops.mean(table(ids), axis=1)
        model = keras.Model({"features": ids}, keras.layers.Dense(1)(pooled))
        optimizer = sd.Optimizer(keras.optimizers.RMSprop(learning_rate=0.1))
        accuracy = keras.metrics.BinaryAccuracy(threshold=0.0)

    @sd.function
    def step_fn(iterator: Any) -> Any:
        def replica_fn(features: Any, labels: Any) -> Any:
            def compute_loss() -> Any:
                pred = model(features, training=True)
                return sd.compute_average_loss(keras.losses.binary_crossentropy(labels, pred, from_logits=True)), pred

            (loss, pred), grads = sd.value_and_grad(compute_loss, model.trainable_variables, has_aux=True)()
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            accuracy.update_state(labels, pred)
            return loss

        features, labels = next(iterator)
        losses = strategy.run(replica_fn, args=(features, labels))
        return strategy.reduce(sd.ReduceOp.SUM, losses, axis=None)

    coordinator = sd.ClusterCoordinator(strategy)
    per_worker_dataset = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn))
    per_worker_iterator = iter(per_worker_dataset)
    reached: list[float] = []
    for epoch in range(4):
        accuracy.reset_state()
        if kills:
            cluster.faults.crash(f"worker:{epoch % 3}", at=cluster.now + 0.002, restart_after=0.001)
        for _ in range(5):
            coordinator.schedule(step_fn, args=(per_worker_iterator,))
        coordinator.join()
        reached.append(float(accuracy.result()))
    loss = coordinator.schedule(step_fn, args=(per_worker_iterator,)).fetch()

    # The metric counts also what was wrong at the beginning of an epoch; the model is right after the fourth in any case.
    assert max(reached) == 1.0 if seed == 2 and not kills else max(reached) > 0.9
    assert loss < 1e-3
    words = np.array([[a, b, c] for a in vocabulary for b in vocabulary for c in vocabulary if len({a, b, c}) == 3])
    given = np.asarray(model({"features": feature_lookup(words)}))[:, 0] < 0.0  # "yes" is number 0
    assert np.array_equal(given, (words == "avenger").any(axis=1))
    assert len(list(cluster.trace.instants.where(category="crash"))) == (4 if kills else 0)
    shards = [(r.shape, r.task) for r in strategy.placements() if r.kind == "parameter" and r.num_shards == 2]
    assert shards == [((8, 16384), "ps:0"), ((8, 16384), "ps:1")]
