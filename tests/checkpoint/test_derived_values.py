"""Layers that compute with arrays which they have made of their variables: a restore makes them anew."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.array([[1.0, -2.0], [5.0, 0.0], [9.0, 8.0]], np.float32)
NORMALIZED = (X - X.mean(axis=0)) / X.std(axis=0)

SCOPES: dict[str, Callable[[], Any]] = {
    "no strategy": nullcontext,
    "mirrored": lambda: sd.MirroredStrategy(2).scope(),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})).scope(),
}


def normalizing(scope: Any, adapted: bool, is_built: bool = True, nested: bool = False) -> keras.Model:
    with scope:
        layer = keras.layers.Normalization()
        if adapted:
            layer.adapt(X)
        layers = [keras.Sequential([layer])] if nested else [layer]
        model = keras.Sequential([*([keras.Input((2,))] if is_built or adapted else []), *layers])
        model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_a_normalization_computes_with_the_mean_that_was_restored(tmp_path: Path, scope: Callable[[], Any], nested: bool) -> None:
    path = sd.Checkpoint(model=normalizing(scope(), adapted=True, nested=nested)).save(tmp_path / "ckpt")
    restored = normalizing(scope(), adapted=False, nested=nested)
    sd.Checkpoint(model=restored).restore(path).assert_consumed()
    assert restored.predict(X, verbose=0) == pytest.approx(NORMALIZED, abs=1e-5)


def test_a_normalization_that_is_built_after_the_restore_does_so_too(tmp_path: Path) -> None:
    path = sd.Checkpoint(model=normalizing(nullcontext(), adapted=True)).save(tmp_path / "ckpt")
    strategy = sd.MirroredStrategy(2)
    restored = normalizing(strategy.scope(), adapted=False, is_built=False)
    status = sd.Checkpoint(model=restored).restore(path)
    with strategy.scope():
        restored.build((None, 2))
    status.assert_consumed()
    assert restored.predict(X, verbose=0) == pytest.approx(NORMALIZED, abs=1e-5)


def test_a_layer_alone_and_one_with_a_given_mean(tmp_path: Path) -> None:
    adapted, other = keras.layers.Normalization(), keras.layers.Normalization()
    adapted.adapt(X)
    other.build((None, 2))
    given = keras.layers.Normalization(mean=1.0, variance=4.0)
    given.build((None, 2))
    path = sd.Checkpoint(layer=adapted, given=given).save(tmp_path / "ckpt")
    sd.Checkpoint(layer=other, given=given).restore(path).expect_partial()
    assert np.asarray(other(X)) == pytest.approx(NORMALIZED, abs=1e-5)
    assert np.asarray(given(X)) == pytest.approx((X - 1) / 2)


def test_a_backup_restores_what_a_training_computes_with(tmp_path: Path) -> None:
    def losses(adapted: bool) -> list[float]:
        with sd.MirroredStrategy(2).scope():
            layer = keras.layers.Normalization()
            if adapted:
                layer.adapt(X)
            model = keras.Sequential([keras.Input((2,)), layer, keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(keras.optimizers.SGD(0.0), "mse")
        backup = keras.callbacks.BackupAndRestore(str(tmp_path), delete_checkpoint=False)
        return model.fit(X, 0 * X[:, :1], epochs=1 if adapted else 2, verbose=0, batch_size=3, callbacks=[backup]).history["loss"]

    expected = np.mean(NORMALIZED.sum(axis=1) ** 2)
    assert losses(adapted=True) == pytest.approx([expected], rel=1e-5)
    assert losses(adapted=False) == pytest.approx([expected] * 2, rel=1e-5)  # the first of which is that of the backup
