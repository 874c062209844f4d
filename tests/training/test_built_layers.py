"""Values that wait for the variables of a layer come as soon as these can be assigned."""

from __future__ import annotations

import numpy as np
from keras.src.backend.common import stateless_scope

from simdist import keras
from simdist.program.saved_parts import when_built


def waiting(layer: keras.layers.Layer, seen: list[bool]) -> keras.layers.Layer:
    when_built(layer, lambda: seen.append(stateless_scope.in_stateless_scope()), dict)
    return layer


def test_they_come_when_the_layer_is_built_and_once() -> None:
    seen: list[bool] = []
    layer = waiting(keras.layers.Dense(2), seen)
    assert seen == []
    layer.build((None, 3))
    layer(np.ones((1, 3), np.float32))
    assert seen == [False]


def test_of_a_layer_that_is_built_in_a_scope_without_values_they_come_when_that_is_left() -> None:
    seen: list[bool] = []
    with stateless_scope.StatelessScope():
        with stateless_scope.StatelessScope():
            waiting(keras.layers.Dropout(0.5), seen).build((None, 3))
        assert seen == []
    assert seen == [False]


def test_of_a_scope_that_ended_by_an_error_none_come() -> None:
    seen: list[bool] = []
    try:
        with stateless_scope.StatelessScope():
            waiting(keras.layers.Dropout(0.5), seen).build((None, 3))
            raise KeyError
    except KeyError:
        pass
    with stateless_scope.StatelessScope():
        pass
    assert seen == []
