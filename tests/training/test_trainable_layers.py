"""Which layers are trainable may change between calls: evaluate and predict go on with the right values."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).random((8, 3), np.float32)
Y = np.zeros((8, 3), np.float32)
FIRST, SECOND = np.diag([1.0, 2.0, 3.0]).astype("float32"), np.triu(np.ones((3, 3), np.float32))


@pytest.mark.parametrize("anew", [True, False], ids=["compiled anew", "as it is"])
def test_layers_that_change_places_among_the_trainable_ones_keep_their_values(anew: bool) -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), keras.layers.Dense(3)])
        model.set_weights([FIRST, np.zeros(3), SECOND, np.zeros(3)])
        one, other = model.layers
        for frozen, trained in ((one, other), (other, one)):
            frozen.trainable, trained.trainable = False, True
            if anew or not model.compiled:
                model.compile("sgd", "mse")
            expected = X @ FIRST @ SECOND
            np.testing.assert_allclose(model.predict(X, verbose=0), expected, rtol=1e-5, atol=1e-6)
            assert model.evaluate(X, Y, verbose=0) == pytest.approx(np.mean(expected**2), rel=1e-5)
