"""Conformance cases B240 and B242: the training loop of TensorFlow's tutorial on parameter servers, and its restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras

WORDS = ["Avenger", "Ironman", "Batman", "Hulk", "Spiderman", "Kingkong", "Wonder Woman", "Superman"]


def test_b240_a_loop_of_closures_learns_a_vocabulary() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        table, weights = sd.Variable(np.zeros((len(WORDS), 4), np.float32)), sd.Variable(np.zeros(4, np.float32))
        table.assign(np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32))
        right, seen = (sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation="sum") for _ in range(2))
        optimizer = sd.Optimizer(optax.rmsprop(0.1))

    def dataset(context: sd.InputContext) -> sd.Dataset:
        numbers = np.random.default_rng(context.input_pipeline_id).integers(0, len(WORDS), 512)
        return sd.Dataset.from_tensor_slices((numbers, (numbers < 4).astype(np.float32))).shuffle(200, seed=1).batch(32).repeat()

    @sd.function
    def step(iterator: Any) -> Any:
        numbers, labels = next(iterator)

        def loss_of(table: Any, weights: Any) -> Any:
            logits = table[numbers] @ weights
            return optax.sigmoid_binary_cross_entropy(logits, labels).mean(), logits

        (loss, logits), gradients = jax.value_and_grad(loss_of, (0, 1), has_aux=True)(table.value, weights.value)
        optimizer.apply_gradients(list(zip(gradients, (table, weights), strict=True)))
        right.assign_add(((logits > 0.0) == (labels > 0.5)).sum() * 1.0)
        seen.assign_add(labels.shape[0] * 1.0)
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(strategy.distribute_datasets_from_function(dataset)))
    accuracies: list[float] = []
    for _ in range(4):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(5)]
        coordinator.join()
        assert np.isfinite(coordinator.fetch(losses)).all()
        accuracies.append(float(right.numpy() / seen.numpy()))
        right.assign(0.0), seen.assign(0.0)
    assert accuracies[-1] == 1.0 and accuracies[0] < 1.0


EPOCHS, STEPS = 4, 5
NUMBERS = np.random.default_rng(3).integers(0, len(WORDS), 32 * STEPS)  # an epoch is one pass


def restartable(cluster: sd.Cluster, directory: Path, epochs: int, shards: int = 2) -> tuple[int, list[np.ndarray], list[str]]:
    """The loop of the tutorial, which goes on from its last checkpoint: its first epoch, what it has trained, and the checkpoints there."""
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(shards))
    with strategy.scope():
        table = sd.Variable(np.random.default_rng(0).normal(size=(len(WORDS), 4)), name="table")
        weights = sd.Variable(np.zeros(4), name="weights")
        optimizer = keras.optimizers.RMSprop(0.1, momentum=0.5)
        accuracy = keras.metrics.BinaryAccuracy()

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(batch: Any) -> Any:
            numbers, labels = batch

            def loss_of() -> Any:
                logits = sd.embedding_lookup(table, numbers) @ weights.value
                return sd.compute_average_loss(optax.sigmoid_binary_cross_entropy(logits, labels)), logits

            (loss, logits), gradients = sd.value_and_grad(loss_of, [table, weights], has_aux=True)()
            optimizer.apply_gradients(zip(gradients, [table, weights], strict=True))
            accuracy.update_state(labels[:, None], jax.nn.sigmoid(logits)[:, None])
            return loss

        return strategy.reduce("sum", strategy.run(replica, args=(next(iterator),)), axis=None)

    coordinator = sd.ClusterCoordinator(strategy)
    rows = sd.Dataset.from_tensor_slices((NUMBERS, (NUMBERS < 4).astype(np.float32))).batch(32).repeat()
    iterator = iter(coordinator.create_per_worker_dataset(lambda: rows))
    checkpoint = sd.Checkpoint(table=table, weights=weights, optimizer=optimizer)
    manager = sd.CheckpointManager(checkpoint, str(directory), max_to_keep=3)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()
    first = int(optimizer.iterations) // STEPS
    for _ in range(first, epochs):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(STEPS)]
        coordinator.join()
        assert np.isfinite(coordinator.fetch(losses)).all() and 0.0 < float(accuracy.result()) <= 1.0
        accuracy.reset_state()
        manager.save()
    return first, [table.numpy(), weights.numpy()], [Path(path).name for path in manager.checkpoints]


@pytest.mark.parametrize(("servers", "shards"), [(2, 2), (3, 3), (1, 1)])
@pytest.mark.sample(2)
def test_b242_the_loop_goes_on_from_its_checkpoint_on_any_number_of_servers(servers: int, shards: int, tmp_path: Path) -> None:
    undisturbed = restartable(sd.Cluster({"worker": 1, "ps": 2}), tmp_path / "whole", EPOCHS)
    assert undisturbed[0] == 0 and undisturbed[2] == ["ckpt-2", "ckpt-3", "ckpt-4"]
    dies = sd.Cluster({"worker": 1, "ps": 2})
    dies.faults.crash("ps:1", after_steps=2 * STEPS + 3)
    with pytest.raises(sd.errors.UnavailableError, match="ps:1"):
        restartable(dies, tmp_path / "broken", EPOCHS)
    first, values, checkpoints = restartable(sd.Cluster({"worker": 1, "ps": servers}), tmp_path / "broken", EPOCHS, shards)
    assert first == 2 and checkpoints == ["ckpt-2", "ckpt-3", "ckpt-4"]
    for found, expected in zip(values, undisturbed[1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
