"""Evaluations with moving averages of the weights, as in Keras, wherever the averages lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import covering, sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2)),
    "rounds": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), mode="sync"),
}


def model_of(namespace: Any, **options: Any) -> Any:
    model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.1, **options), "mse")
    return model


def averaged(namespace: Any) -> Any:
    return model_of(namespace, use_ema=True, ema_momentum=0.5)


def trained(model: Any, **options: Any) -> tuple[dict[str, list[float]], list[np.ndarray], list[np.ndarray]]:
    """The history, the weights as callbacks see them after each epoch, and those after fit."""
    seen: list[np.ndarray] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(model.get_weights()[0]))
    callbacks = [keras.callbacks.SwapEMAWeights(**options), note]
    given = {"epochs": 3, "batch_size": 4, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    return model.fit(X, Y, callbacks=callbacks, **given).history, seen, model.get_weights()


CASES = [(strategy, on_epoch) for strategy in STRATEGIES for on_epoch in (False, True)]


@pytest.mark.parametrize(("strategy", "on_epoch"), sampled(CASES, covering(CASES)))
def test_validation_and_the_weights_that_are_left_are_those_of_keras(strategy: str, on_epoch: bool) -> None:
    with STRATEGIES[strategy]().scope():
        ours = averaged(keras)
    found, expected = trained(ours, swap_on_epoch=on_epoch), trained(averaged(plain), swap_on_epoch=on_epoch)
    for name, values in expected[0].items():
        assert found[0][name] == pytest.approx(values, rel=1e-5)
    for seen, wanted in zip([*found[1], *found[2]], [*expected[1], *expected[2]], strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=1e-5)


def test_a_validation_without_the_callback_has_other_values() -> None:
    with sd.MirroredStrategy(2).scope():
        swapped, other = averaged(keras), averaged(keras)
    given = {"batch_size": 4, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    assert trained(swapped)[0]["val_loss"][0] != pytest.approx(other.fit(X, Y, **given).history["val_loss"][0], rel=1e-3)


def test_the_weights_come_back_after_a_prediction() -> None:
    with sd.MirroredStrategy(2).scope():
        model = averaged(keras)
    swap = keras.callbacks.SwapEMAWeights()
    outputs: list[np.ndarray] = []
    predict = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: outputs.extend(model.predict(X, verbose=0, callbacks=given) for given in ([], [swap], []))
    )
    model.fit(X, Y, batch_size=4, verbose=0, callbacks=[predict])
    assert np.array_equal(outputs[0], outputs[2]) and not np.allclose(outputs[0], outputs[1])


def test_launched_mains_evaluate_with_the_same_averages() -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = averaged(keras)
        history, _, weights = trained(model)
        return history["val_loss"], weights[0].tolist()

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    expected = trained(averaged(plain))
    assert run.results["worker:0"] == run.results["worker:1"]
    np.testing.assert_allclose(run.results["worker:0"][0], expected[0]["val_loss"], rtol=1e-5)


def test_an_optimizer_without_averages_is_an_error() -> None:
    with sd.MirroredStrategy(2).scope():
        model = model_of(keras)
    with pytest.raises(ValueError, match="use_ema"):
        trained(model)


@pytest.mark.parametrize("swap_first", [True, False])
@pytest.mark.sample(2)
def test_a_training_that_was_interrupted_goes_on_with_the_weights_and_not_with_their_averages(swap_first: bool, tmp_path: Path) -> None:
    def train(stop_in: int | None) -> Any:
        with sd.OneDeviceStrategy().scope():
            model = averaged(keras)

        def stop(epoch: int, logs: Any) -> None:
            if epoch == stop_in:
                raise KeyboardInterrupt

        calls = [keras.callbacks.SwapEMAWeights(swap_on_epoch=True), keras.callbacks.BackupAndRestore(tmp_path)]
        calls = calls if swap_first else calls[::-1]
        calls.append(keras.callbacks.LambdaCallback(on_epoch_begin=stop))
        model.fit(X, Y, epochs=4, batch_size=4, shuffle=False, verbose=0, callbacks=calls)
        return model.get_weights()[0]

    expected = train(None)
    with pytest.raises(KeyboardInterrupt):
        train(2)
    np.testing.assert_array_equal(train(None), expected)
