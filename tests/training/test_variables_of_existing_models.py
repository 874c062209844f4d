"""Variables that an existing model gets: in the scope they are trained as in plain Keras, outside of it the error says what to do."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def fitted(library: Any, scope: Any, later: Any) -> list[float]:
    with scope:
        model = library.Sequential([library.Input((4,)), library.layers.Dense(1, kernel_initializer="ones")])
    with later:
        model.layers[0].enable_lora(2, a_initializer="ones")
        model.compile(library.optimizers.SGD(0.1), "mse")
    losses: list[float] = model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
    return losses


def test_those_that_are_made_in_the_scope_are_trained_as_by_keras() -> None:
    strategy = sd.MirroredStrategy(2)
    found = fitted(keras, strategy.scope(), strategy.scope())
    np.testing.assert_allclose(found, fitted(plain, nullcontext(), nullcontext()), rtol=1e-5)


def test_of_those_that_are_made_outside_the_error_says_what_to_call_where() -> None:
    with pytest.raises(InvalidArgumentError, match=r"call enable_lora / quantize inside `with strategy.scope\(\):`"):
        fitted(keras, sd.MirroredStrategy(2).scope(), nullcontext())
