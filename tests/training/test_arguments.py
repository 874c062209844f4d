"""What fit, evaluate, predict and compile take: honoured as plain Keras does it, or refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).random((20, 3), np.float32)
LABELS = (np.arange(20) % 3 == 0).astype(np.float32)[:, None]
DATA = sd.Dataset.from_tensor_slices((X, LABELS)).batch(8)
OPTIONS: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0, "epochs": 3}


def compiled(namespace: Any) -> Any:
    model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(1, "sigmoid", kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.1), "mse", weighted_metrics=["mae"])
    return model


def model_of() -> Any:
    with sd.MirroredStrategy(2).scope():
        return compiled(keras)


def agree(*args: Any, **options: Any) -> dict[str, list[float]]:
    """Histories of ours and of plain Keras."""
    found = model_of().fit(*args, **(OPTIONS | options)).history
    expected = compiled(plain).fit(*args, **(OPTIONS | options)).history
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-5), name
    return found


def test_weights_of_classes_are_those_of_keras() -> None:
    agree(X, LABELS, class_weight={0: 0.5, 1: 4.0})


def test_a_model_for_batches_of_one_size_says_which_batches_replicas_need() -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input(batch_shape=(4, 3, 1)), keras.layers.SimpleRNN(1, stateful=True)])
        model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="batch size") as caught:
        model.fit(X[:8, :, None], LABELS[:8], **(OPTIONS | {"batch_size": 4}))
    assert any("called with 2" in note and "give fit batches of 8 rows" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("rows", [8, 6])  # a first batch of another size, and a last one
def test_a_model_for_batches_of_one_size_says_which_batches_evaluation_needs(rows: int) -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input(batch_shape=(4, 3)), keras.layers.Lambda(lambda x: keras.ops.reshape(x, (4, 3)))])
        model.compile(None, "mse")
    data, size = (X[:rows], X[:rows]), 8 if rows == 8 else 4
    calls: list[Callable[[], Any]] = [
        lambda: model.evaluate(*data, batch_size=size, verbose=0),
        lambda: model.predict(X[:rows], batch_size=size, verbose=0),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="reshape") as caught:
            call()
        (note,) = [note for note in caught.value.__notes__ if "made for batches of 4" in note]
        assert f"called with {rows if rows == 8 else 2}" in note
        assert "validation_batch_size=4" in note


def test_a_split_for_validation_is_that_of_keras() -> None:
    assert "val_loss" in agree(X, LABELS, validation_split=0.3)
    agree(X, LABELS, sample_weight=np.arange(20.0), validation_split=0.3, validation_batch_size=4)


def test_a_list_of_epochs_for_validation_is_followed() -> None:
    assert len(agree(X, LABELS, validation_data=(X, LABELS), validation_freq=[1, 3])["val_loss"]) == 2


def test_arguments_may_be_given_by_place() -> None:
    found = model_of().fit(X, LABELS, 8, 2, 0).history["loss"]
    assert len(found) == 2
    model = model_of()
    assert model.evaluate(X, LABELS, 8, 0) == pytest.approx(model.evaluate(X, LABELS, verbose=0), rel=1e-6)
    assert model.predict(X, 8, 0).shape == (20, 1)


def test_steps_without_a_batch_size_divide_arrays() -> None:
    agree(X, LABELS, batch_size=None, steps_per_epoch=4)


def test_lists_of_arrays_are_several_inputs_and_lists_of_numbers_are_one() -> None:
    with sd.MirroredStrategy(2).scope():
        inputs = [keras.Input((3,)), keras.Input((3,))]
        model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs[0] + 2 * inputs[1]))
        model.compile("sgd", "mse")
    np.testing.assert_allclose(model.predict([X, 2 * X], verbose=0), 5 * X.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    model.fit([X, X], LABELS, verbose=0)
    whole = model_of()
    assert whole.fit(X.tolist(), LABELS.tolist(), verbose=0).history["loss"]


class Frame:
    """Knows only how to become an array, as tables of other libraries do."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


def test_what_can_become_an_array_is_one() -> None:
    assert model_of().predict(Frame(X), verbose=0).shape == (20, 1)


STRANGE: dict[str, Callable[[], Any]] = {
    "iterator": lambda: iter([(X, LABELS)]),
    "list of batches": lambda: [(X, LABELS), "more"],
    "text": lambda: "x.csv",
    "function": lambda: model_of,
}


@pytest.mark.parametrize("kind", STRANGE)
def test_data_of_another_kind_is_refused_with_the_way_to_a_dataset(kind: str) -> None:
    model = model_of()
    for call in (model.fit, model.evaluate, model.predict):
        with pytest.raises(TypeError, match="from_iterable"):
            call(STRANGE[kind](), verbose=0)


@pytest.mark.parametrize("data", [X[:0], sd.Dataset.from_tensor_slices((X, LABELS)).filter(lambda x, y: x.sum() > 99).batch(4)])
def test_no_data_is_refused_by_name(data: Any) -> None:
    model = model_of()
    targets = None if isinstance(data, sd.Dataset) else (LABELS[:0],)
    for name in ("fit", "evaluate", "predict"):
        given = () if name == "predict" or targets is None else targets
        with pytest.raises(sd.errors.InvalidArgumentError, match=f"{name} was given no data"):
            getattr(model, name)(data, *given, verbose=0)


BESIDE_A_DATASET: dict[str, Any] = {
    "y": LABELS,
    "batch_size": 8,
    "shuffle": True,
    "sample_weight": np.ones(20),
    "validation_split": 0.5,
}


@pytest.mark.parametrize("name", BESIDE_A_DATASET)
def test_what_a_dataset_holds_itself_is_refused_beside_it(name: str) -> None:
    given = {name: BESIDE_A_DATASET[name]}
    model = model_of()
    with pytest.raises(sd.errors.InvalidArgumentError, match=name.split("_")[0]):
        model.fit(DATA, verbose=0, **given)
    if name in ("y", "batch_size", "sample_weight"):
        with pytest.raises(sd.errors.InvalidArgumentError, match=name):
            model.evaluate(DATA, verbose=0, **given)


WRONG: dict[str, dict[str, Any]] = {
    "verbose": {"verbose": 3},
    "epochs": {"epochs": 1.5},
    "validation_freq": {"validation_freq": 0, "validation_data": (X, LABELS)},
    "validation_steps": {"validation_steps": 2},
    "steps_per_epoch": {"steps_per_epoch": 0},
    "batch_size": {"batch_size": 2.5},
    "validation_batch_size": {"validation_batch_size": 0, "validation_data": (X, LABELS)},
    "shuffle": {"shuffle": "batch"},
    "class_weight": {"class_weight": {0: 1.0}, "sample_weight": np.ones(20)},
    "class_weight=": {"class_weight": [1.0, 2.0]},
    "validation_split": {"validation_split": 1.5},
}


@pytest.mark.parametrize("name", WRONG)
def test_values_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=name):
        model_of().fit(X, LABELS, **({"verbose": 0} | WRONG[name]))


def test_weights_without_targets_are_refused() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="no y"):
        model_of().fit(X, sample_weight=np.ones(20), verbose=0)


def test_arguments_that_keras_does_not_know_are_type_errors() -> None:
    model = model_of()
    for call in (
        lambda: model.fit(X, LABELS, workers=2),
        lambda: model.evaluate(X, LABELS, workers=2),
        lambda: model.predict(X, workers=2),
    ):
        with pytest.raises(TypeError, match="workers"):
            call()


@pytest.mark.parametrize("options", [{"steps_per_execution": "auto"}, {"steps_per_execution": 0}])
def test_ways_to_compile_that_a_strategy_does_not_have_are_refused(options: dict[str, Any]) -> None:
    with sd.OneDeviceStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        with pytest.raises(sd.errors.InvalidArgumentError, match=next(iter(options))):
            model.compile("sgd", "mse", **options)
        model.compile("sgd", "mse", jit_compile=True, steps_per_execution=2, auto_scale_loss=False)


@pytest.mark.parametrize("made", [lambda: sd.Optimizer(keras.optimizers.SGD(0.1)), lambda: optax.sgd(0.1)])
def test_an_optimizer_for_loops_of_ones_own_is_refused(made: Callable[[], Any]) -> None:
    with sd.OneDeviceStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        with pytest.raises(TypeError, match="compile takes an optimizer of Keras"):
            model.compile(made(), "mse")


def test_data_that_another_strategy_distributed_is_refused() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="another strategy"):
        model_of().fit(sd.MirroredStrategy(3).distribute_dataset(DATA), verbose=0)


def test_endless_data_that_functions_made_needs_steps() -> None:
    model = model_of()
    made = model.simdist_strategy.distribute_datasets_from_function(lambda context: DATA.repeat())
    with pytest.raises(sd.errors.InvalidArgumentError, match="no end"):
        model.fit(made, verbose=0)
    assert model.fit(made, steps_per_epoch=2, verbose=0).history["loss"]


def test_parameter_servers_read_to_the_end_where_the_length_is_unknown() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        with sd.ParameterServerStrategy(cluster).scope():
            model = compiled(keras)
        model.fit(DATA.filter(lambda x, y: True), epochs=2, verbose=0)
        assert int(model.optimizer.iterations) == 2 * len(list(DATA))


@pytest.mark.parametrize("make", [lambda c: sd.MultiWorkerMirroredStrategy(c), lambda c: sd.ParameterServerStrategy(c)])
def test_fit_without_numerics_has_times_and_no_losses(make: Callable[[Any], Any]) -> None:
    found: list[float] = []
    for numerics in ("deferred", "off"):
        with sd.Cluster({"worker": 2, "ps": 1}, numerics=numerics) as cluster:
            with make(cluster).scope():
                model = compiled(keras)
            history = model.fit(DATA.repeat(), epochs=2, steps_per_epoch=2, verbose=0)
            found.append(cluster.now)
    assert found[0] == found[1] > 0
    assert (history.epoch, history.history) == ([0, 1], {})
    with pytest.raises(sd.errors.FailedPreconditionError, match="numerics"):
        model.fit(DATA, epochs=2, steps_per_epoch=2, verbose=0, validation_data=DATA)


class WithoutState(keras.Sequential):
    """Steps as Keras has them on TensorFlow."""

    def test_step(self, data: Any) -> Any:
        return {}

    def predict_step(self, data: Any) -> Any:
        return data


CALLS: dict[str, Callable[[Any], Any]] = {
    "evaluate": lambda model: model.evaluate(X, LABELS, verbose=0),
    "test_on_batch": lambda model: model.test_on_batch(X, LABELS),
    "fit": lambda model: model.fit(X, LABELS, validation_data=(X, LABELS), verbose=0),
    "predict": lambda model: model.predict(X, verbose=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_step_without_the_state_is_refused_before_anything_runs(name: str) -> None:
    with sd.MirroredStrategy(2).scope():
        model = WithoutState([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    step = "predict_step" if name == "predict" else "test_step"
    with pytest.raises(
        sd.errors.FailedPreconditionError, match=rf"WithoutState.{step} takes data alone.*{step}\(self, state, data\) returns"
    ):
        CALLS[name](model)
    assert int(model.optimizer.iterations.numpy()) == 0
