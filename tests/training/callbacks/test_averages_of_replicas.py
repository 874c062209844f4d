"""`SwapEMAWeights` where replicas have weights of their own: validation, training and what is left, against lists of replicas in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import covering, sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
STEPS, EPOCHS, RATE, MOMENTUM = 3, 3, 0.05, 0.8
RNG = np.random.default_rng(0)
TRUE = np.array([[1.0], [2.0], [-1.0]])
X, NEW = RNG.normal(size=(8 * STEPS, 3)), RNG.normal(size=(8, 3))


def loss(kernel: np.ndarray, x: np.ndarray) -> float:
    return float(((x @ kernel - x @ TRUE) ** 2).mean())


def expected(replicas: int, every: int) -> tuple[list[float], list[float], np.ndarray]:
    """The losses of epochs, the validation losses of the mean of the averages, and this mean in the end."""
    kernels = [np.full((3, 1), 0.1)] * replicas
    averages, losses, validated, step = kernels[:], list[float](), list[float](), 0
    for _ in range(EPOCHS):
        found: list[float] = []
        for batch in np.split(X, STEPS):
            parts = np.split(batch, replicas)
            found.append(float(np.mean([loss(kernel, part) for kernel, part in zip(kernels, parts, strict=True)])))
            slopes = [2 * part.T @ (part @ kernel - part @ TRUE) / len(part) for kernel, part in zip(kernels, parts, strict=True)]
            kernels = [kernel - RATE * slope for kernel, slope in zip(kernels, slopes, strict=True)]
            averages = [MOMENTUM * a + (1 - MOMENTUM) * k if step else k for a, k in zip(averages, kernels, strict=True)]
            step += 1
            if step % every == 0:
                kernels = [np.mean(kernels, axis=0)] * replicas
        losses.append(float(np.mean(found)))
        validated.append(loss(np.mean(averages, axis=0), NEW))
    return losses, validated, np.mean(averages, axis=0)


def train(strategy: Any, on_epoch: bool) -> tuple[list[float], list[float], list[np.ndarray], np.ndarray, float]:
    """Losses, validation losses, the weights that callbacks see at the end of epochs, and those after fit; an evaluation alone."""
    seen: list[np.ndarray] = []
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
        model.layers[0].set_weights([np.full((3, 1), 0.1, np.float32)])
        model.compile(keras.optimizers.SGD(RATE, use_ema=True, ema_momentum=MOMENTUM), "mse")
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=on_epoch)
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(model.get_weights()[0]))
    given: dict[str, Any] = {"batch_size": 8, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
    rows, new = X.astype("f"), NEW.astype("f")
    data = (new, (new @ TRUE).astype("f"))
    history = model.fit(rows, (rows @ TRUE).astype("f"), validation_data=data, validation_batch_size=8, callbacks=[swap, note], **given)
    alone = model.evaluate(*data, batch_size=8, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights()])
    return history.history["loss"], history.history["val_loss"], seen, model.get_weights()[0], alone


CASES = [(main, on_epoch, devices, every) for main in (False, True) for on_epoch in (False, True) for devices in (1, 2) for every in (2, 3)]


@pytest.mark.parametrize(("launched", "on_epoch", "devices", "every"), sampled(CASES, covering(CASES)))
def test_replicas_evaluate_the_mean_of_their_averages_and_train_on_as_without(
    launched: bool, on_epoch: bool, devices: int, every: int
) -> None:
    cluster = sd.Cluster({"worker": 2})

    def made() -> sd.MultiWorkerMirroredStrategy:
        given = None if launched else cluster
        return sd.MultiWorkerMirroredStrategy(given, sync_every=every, devices_per_worker=devices)

    results = [train(made(), on_epoch)] if not launched else []
    if launched:
        run = cluster.launch(lambda: train(made(), on_epoch))
        run.join()
        results = list(run.results.values())
    losses, validated, average = expected(2 * devices, every)
    for found_losses, found_validated, seen, left, alone in results:
        np.testing.assert_allclose(found_losses, losses, rtol=1e-4)
        np.testing.assert_allclose(found_validated, validated, rtol=1e-4)
        np.testing.assert_allclose(left, average, rtol=1e-4, atol=1e-5)
        assert np.isfinite(alone)  # a main that evaluates by itself waits for no other
        if on_epoch:
            np.testing.assert_allclose([loss(kernel, NEW) for kernel in seen], validated, rtol=1e-4)


def test_a_model_that_is_saved_with_averages_in_it_has_the_mean_of_all_weights_in_their_place(tmp_path: Path) -> None:
    def main() -> None:
        with sd.MultiWorkerMirroredStrategy(sync_every=2).scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
            model.layers[0].set_weights([np.full((3, 1), 0.1, np.float32)])
            model.compile(keras.optimizers.SGD(RATE, use_ema=True, ema_momentum=MOMENTUM), "mse")
        saving = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")  # in the last epoch Keras swaps nothing
        given: dict[str, Any] = {
            "batch_size": 8,
            "epochs": 2,
            "shuffle": False,
            "verbose": 0,
            "callbacks": [keras.callbacks.SwapEMAWeights(True), saving],
        }
        model.fit(X.astype("f"), (X @ TRUE).astype("f"), **given)

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.launch(main).join()
    kernels = [np.full((3, 1), 0.1)] * 2
    for step, batch in enumerate(np.split(X, STEPS)):
        parts = np.split(batch, 2)
        kernels = [k - RATE * 2 * part.T @ (part @ k - part @ TRUE) / 4 for k, part in zip(kernels, parts, strict=True)]
        if step == 1:
            kernels = [np.mean(kernels, axis=0)] * 2
    with sd.OneDeviceStrategy().scope():
        saved = keras.models.load_model(tmp_path / "1.keras")
    np.testing.assert_allclose(saved.optimizer._model_variables_moving_average[0], np.mean(kernels, axis=0), rtol=1e-4, atol=1e-5)


def test_weights_that_stand_in_for_a_while_do_not_move_the_outer_optimizer() -> None:
    """Its next step begins where its last one has ended, whatever was evaluated in between."""

    def trained(callbacks: list[Any]) -> list[float]:
        cluster = sd.Cluster({"worker": 2})
        outer = keras.optimizers.SGD(0.7, momentum=0.9, nesterov=True)
        with sd.MultiWorkerMirroredStrategy(cluster, sync_every=2, outer_optimizer=outer).scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(keras.optimizers.SGD(RATE, use_ema=True, ema_momentum=MOMENTUM), "mse")
        rows = X.astype("f")
        target = (rows @ TRUE).astype("f")
        given: dict[str, Any] = {"batch_size": 8, "epochs": 4, "shuffle": False, "verbose": 0}
        return model.fit(rows, target, callbacks=callbacks, validation_data=(rows, target), **given).history["loss"]

    plain, swapped = trained([]), trained([keras.callbacks.SwapEMAWeights(swap_on_epoch=True)])
    np.testing.assert_allclose(swapped, plain, rtol=1e-6)
