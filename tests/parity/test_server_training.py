"""Conformance case B240: the training loop of TensorFlow's tutorial on parameter servers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax

import simdist as sd

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
