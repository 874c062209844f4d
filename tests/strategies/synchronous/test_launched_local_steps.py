"""Local steps of launched mains: what each of them reads, saves and evaluates between two averages, against replicas in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from tests.strategies.synchronous.plain_local_steps import FEATURES, KEEP, MOMENTUM, PlainModel, PlainReplicas, outputs

RNG = np.random.default_rng(0)
STEPS, EPOCHS, BATCH = 4, 2, 8
X = RNG.normal(1.0, 2.0, size=(BATCH * STEPS, FEATURES)).astype("f")
Y = (X @ [[1.0], [2.0], [-1.0]]).astype("f")
FIRST = [np.full((FEATURES, 1), 0.1), np.zeros(1)]


def made() -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((FEATURES,)), layers.BatchNormalization(momentum=KEEP, center=False, scale=False), layers.Dense(1)]
    )
    model.layers[1].set_weights([weight.astype("f") for weight in FIRST])
    model.compile(keras.optimizers.SGD(0.05, momentum=MOMENTUM), "mse")
    return model


def weights_of(model: Any) -> list[np.ndarray]:
    (average, variance), (kernel, bias) = (layer.get_weights() for layer in model.layers)
    return [kernel, bias, average, variance]


def loss(weights: Any) -> float:
    return float(((outputs(weights, X) - Y) ** 2).mean())


@pytest.mark.parametrize("devices", [1, 2])
def test_all_mains_read_and_save_what_they_validate_and_evaluate_what_their_own_replicas_have(devices: int, tmp_path: Path) -> None:
    path = tmp_path / "saved.weights.h5"

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy(sync_every=3, devices_per_worker=devices)
        with strategy.scope():
            model = made()
        saving = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
        given: dict[str, Any] = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
        validated = model.fit(X, Y, validation_data=(X, Y), callbacks=[saving], **given).history["val_loss"]
        alone = model.evaluate(X, Y, verbose=0)
        return validated, weights_of(model), alone, model.predict(X, verbose=0)

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    plain = PlainReplicas(2, devices, 3, has_outer=False)
    model = PlainModel("sgd", FIRST, 2 * devices)
    plain.models.append(model)
    expected: list[float] = []
    for _ in range(EPOCHS):
        for x, y in zip(np.split(X, STEPS), np.split(Y, STEPS), strict=True):
            plain.step(model, x, y)
        expected.append(loss(model.seen()))
    for worker in range(2):
        validated, weights, alone, predicted = run.results[f"worker:{worker}"]
        np.testing.assert_allclose(validated, expected, rtol=1e-4)
        for found, wanted in zip(weights, model.seen(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        own = model.seen(plain.ranks_of(worker))
        assert alone == pytest.approx(loss(own), rel=1e-4)
        np.testing.assert_allclose(predicted, outputs(own, X), rtol=1e-4, atol=1e-4)
    with sd.OneDeviceStrategy().scope():
        saved = made()
    saved.load_weights(path)
    assert loss(weights_of(saved)) == pytest.approx(expected[-1], rel=1e-4)


@pytest.mark.parametrize("steps", [1, 3])
def test_slots_that_mains_read_are_the_average_of_all_also_where_the_weights_have_just_been_averaged(steps: int) -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy(sync_every=3).scope():
            model = made()
        model.fit(X, Y, batch_size=BATCH, steps_per_epoch=steps, shuffle=False, verbose=0)
        return [slot.numpy() for slot in model.optimizer.variables[2:]]

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    plain = PlainReplicas(2, 1, 3, has_outer=False)
    model = PlainModel("sgd", FIRST, 2)
    plain.models.append(model)
    for x, y in [*zip(np.split(X, STEPS), np.split(Y, STEPS), strict=True)][:steps]:
        plain.step(model, x, y)
    means = [-np.mean([replica.first[number] for replica in model.replicas], axis=0) for number in range(2)]
    for slots in run.results.values():
        for found, wanted in zip(slots, means, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("launched", [False, True])
def test_a_step_that_reads_across_the_replicas_gets_their_mean(launched: bool) -> None:
    """It is the number that a program gets behind the step, not that of the first replica, or of this main's."""

    def main(cluster: sd.Cluster | None = None) -> list[list[float]]:
        strategy = sd.MultiWorkerMirroredStrategy(cluster, sync_every=3)
        with strategy.scope():
            weight, optimizer = sd.Variable(1.0), keras.optimizers.SGD(0.1)
        factors = strategy.distribute_values_from_function(lambda context: np.float32(context.replica_id_in_sync_group + 1))

        def replica_fn(factor: Any) -> Any:
            _, gradients = sd.value_and_grad(lambda: weight.value * factor, [weight])()
            optimizer.apply_gradients(zip(gradients, [weight], strict=True))
            return weight.value

        @sd.function
        def step() -> Any:
            before = weight.value
            own = strategy.run(replica_fn, (factors,))
            return before, own, weight.value, weight * 2

        found: list[list[float]] = []
        for _ in range(3):
            before, own, after, twice = step()
            found.append([*map(float, (before, strategy.reduce("mean", own, axis=None), after, twice)), float(weight.value)])
        return found

    cluster = sd.Cluster({"worker": 2})
    if launched:
        run = cluster.launch(main)
        run.join()
        results = list(run.results.values())
    else:
        results = [main(cluster)]
    for found in results:
        for number, numbers in enumerate(found):
            before, after = 1.0 - 0.3 * number, 1.0 - 0.3 * (number + 1)  # a loss is a part of that of all, so alone it counts twice
            assert numbers == pytest.approx([before, after, after, 2 * after, after], abs=1e-6)
