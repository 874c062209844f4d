"""Models in files: Keras alone opens those of ours, and inside a scope all that is read belongs to the strategy."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import pytest
from keras.src.models.functional import Functional

import simdist as sd
from sampling import sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((8, 4), np.float32)
Y = X.sum(1, keepdims=True)
ALONE = """
import sys, numpy as np, keras
*paths, x = sys.argv[1:]
models = [keras.models.load_model(path) for path in paths]
assert not any(name.startswith("simdist") for name in sys.modules)
for model in models:
    print(type(model).__module__, model.evaluate(np.load(x), np.ones((8, 1), "float32"), verbose=0))
"""


def sequential(namespace: Any) -> Any:
    model = namespace.Sequential([keras.Input((4,)), keras.layers.Dense(2, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def functional(namespace: Any) -> Any:
    inputs = keras.Input((4,))
    inner = namespace.Sequential([keras.Input((4,)), keras.layers.Dense(2, "tanh")])
    model = namespace.Model(inputs, keras.layers.Dense(1)(inner(inputs)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def trained(make: Any) -> Any:
    with sd.MirroredStrategy(2).scope():
        model = make(keras)
    model.fit(X, Y, batch_size=4, verbose=0)
    return model


SAVED = [(make, saved_by) for make in (sequential, functional) for saved_by in ("simdist", "plain")]


@pytest.mark.parametrize(("make", "saved_by"), sampled(SAVED, [(sequential, "plain"), (functional, "simdist")]))
def test_a_model_is_loaded_into_a_strategy_and_outside_of_all(make: Any, saved_by: str, tmp_path: Path) -> None:
    path = str(tmp_path / "m.keras")
    model = trained(make) if saved_by == "simdist" else make(plain)
    model.save(path)
    strategy = sd.MirroredStrategy(2)
    loads: list[Any] = [keras.models.load_model, plain.models.load_model]
    for load in loads:
        outside = load(path)
        with strategy.scope():
            inside = load(path)
        assert (outside.simdist_strategy, inside.simdist_strategy) == (None, strategy)
        for loaded in (outside, inside):
            np.testing.assert_allclose(loaded.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-6, atol=1e-7)
        found, wanted = (loaded.fit(X, Y, shuffle=False, verbose=0).history["loss"] for loaded in (inside, outside))
        assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("make", [sequential, functional])
def test_a_file_of_the_older_format_is_loaded_into_a_strategy(make: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "m.h5")
    make(plain).save(path)
    strategy = sd.MirroredStrategy(2)
    losses = []
    scopes: list[Any] = [contextlib.nullcontext(), strategy.scope()]
    for scope in scopes:
        with scope:
            model: Any = keras.models.load_model(path, compile=False)
            model.compile(keras.optimizers.SGD(0.1), "mse")
        losses.append(model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"])
        assert (model.simdist_strategy is strategy) == (scope is scopes[1])
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


@pytest.mark.parametrize("is_sequential", [True, False])
def test_a_file_of_the_older_format_is_written_of_layers_that_track_a_list(is_sequential: bool, tmp_path: Path) -> None:
    """LayerNormalization keeps its axes so, and the list knows the layer's variables: Keras copied them with the configuration."""
    path = str(tmp_path / "m.h5")
    with sd.MirroredStrategy(2).scope():
        made: list[Any] = [keras.layers.LayerNormalization(), keras.layers.Dense(2, kernel_initializer="ones")]
        inputs = keras.Input((4,))
        model: Any = keras.Sequential([inputs, *made]) if is_sequential else keras.Model(inputs, made[1](made[0](inputs)))
        model.compile("sgd", "mse")
    model.save(path)
    x = np.arange(8, dtype=np.float32).reshape(2, 4) ** 2
    loaded = plain.models.load_model(path, compile=False)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6, atol=1e-6)
    assert model.get_config() is not model.get_config() and model.get_config() == model.get_config()


def test_keras_opens_files_of_ours_without_simdist(tmp_path: Path) -> None:
    models = [trained(sequential), trained(functional)]
    paths = [str(tmp_path / f"{number}.keras") for number in range(2)]
    for model, path in zip(models, paths, strict=True):
        model.save(path)
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-c", ALONE, *paths, str(tmp_path / "x.npy")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for model, line in zip(models, run.stdout.splitlines(), strict=True):
        module, loss = line.split()
        assert module.startswith("keras.")
        assert float(loss) == pytest.approx(model.evaluate(X, np.ones((8, 1), np.float32), verbose=0), rel=1e-5)


@pytest.mark.parametrize("make", [sequential, functional])
@pytest.mark.sample(2)
def test_copies_of_a_model_belong_to_the_scope_that_they_are_made_in(make: Any) -> None:
    model, of_keras = trained(make), make(plain)
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        copies: list[Any] = [
            keras.models.clone_model(model),
            type(model).from_config(model.get_config()),
            keras.models.model_from_json(model.to_json()),
            keras.models.clone_model(of_keras) if make is sequential else keras.Model.from_config(of_keras.get_config()),
        ]
    for copy in copies:
        assert copy.simdist_strategy is strategy
        with strategy.scope():
            copy.compile("sgd", "mse")
        copy.set_weights(model.get_weights())
        np.testing.assert_allclose(copy.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-6, atol=1e-7)
        copy.fit(X, Y, verbose=0)
    assert keras.models.clone_model(make(keras)).simdist_strategy is None


def test_a_clone_is_compiled_as_its_model_was() -> None:
    model = trained(sequential)
    with sd.OneDeviceStrategy().scope():
        clone = keras.models.clone_model(model)
    assert clone.compiled
    assert clone.fit(X, Y, verbose=0).history["loss"]


def test_models_in_the_namespace_of_keras_know_strategies() -> None:
    assert keras.models.Sequential is keras.Sequential
    assert keras.models.Model is keras.Model
    assert keras.models.load_model is plain.models.load_model
    with sd.OneDeviceStrategy().scope() as strategy:
        assert keras.models.Sequential([keras.layers.Dense(1)]).simdist_strategy is strategy
        parts = (keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]) for _ in range(2))
        distiller = keras.distillation.Distiller(*parts, distillation_losses=keras.distillation.LogitsDistillation(loss="mse"))
        of_config = plain.saving.deserialize_keras_object(plain.saving.serialize_keras_object(distiller))
        for model in (distiller, of_config):
            assert isinstance(model, keras.distillation.Distiller)
            assert model.simdist_strategy is strategy


def test_a_class_that_is_functional_leaves_other_classes_of_models_alone() -> None:
    with sd.OneDeviceStrategy().scope() as strategy:

        class Wired(keras.Model):
            def __init__(self) -> None:
                inputs = keras.Input((4,))
                super().__init__(inputs, keras.layers.Dense(1)(inputs))

        class Called(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.out = keras.layers.Dense(1)

            def call(self, x: Any) -> Any:
                return self.out(x)

        for model in (Wired(), Called(), sequential(keras), Wired()):
            model.compile("sgd", "mse")
            assert model.simdist_strategy is strategy
            model.fit(X, Y, verbose=0)
    assert not isinstance(Called(), Functional)
