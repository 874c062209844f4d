"""The variables of Keras' objects in checkpoints: by paths that do not depend on names, whenever the objects are built."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.training.saved_variables import saved_variables

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 4), np.float32)
Y = X[:, :1] * 3 - X[:, 1:2]


def sequential(k: Any, built: bool) -> Any:
    return k.Sequential([*([k.Input((4,))] if built else []), k.layers.Dense(3, "tanh"), k.layers.Dropout(0.2, seed=1), k.layers.Dense(1)])


def functional(k: Any, built: bool) -> Any:
    x = k.Input((4,))
    shared = k.layers.Dense(4, "tanh")
    return k.Model(x, k.layers.Dense(1)(k.layers.Add()([shared(x), shared(shared(x)), k.layers.LayerNormalization()(x)])))


def subclassed(k: Any, built: bool) -> Any:
    class Mixed(k.Model):
        def __init__(self) -> None:
            super().__init__()
            self.towers: Any = [k.layers.Dense(3, "tanh"), {"inner": k.Sequential([k.layers.Dense(3), k.layers.LayerNormalization()])}]
            self.last = k.layers.Dense(1)
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x: Any) -> Any:
            return self.last(self.towers[0](x) * self.scale + self.towers[1]["inner"](x))

    model = Mixed()
    if built:
        model(X)
    return model


MODELS = {"sequential": sequential, "functional": functional, "subclassed": subclassed}
STRATEGIES: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2)),
    "no strategy": nullcontext,
}


def made(kind: str, strategy: Any, built: bool, k: Any = keras) -> Any:
    """A compiled model; the names that Keras counts up differ from call to call."""
    with strategy.scope() if hasattr(strategy, "scope") else nullcontext():
        model = MODELS[kind](k, built)
        model.compile(k.optimizers.Adam(0.05), "mse", metrics=["mae"])
    return model


def fit(model: Any, epochs: int = 1) -> list[float]:
    return model.fit(X, Y, batch_size=6, epochs=epochs, shuffle=False, verbose=0).history["loss"]


CASES = [(kind, new, built) for kind in MODELS for new in STRATEGIES for built in (True, False)]
SAMPLE = [("subclassed", "servers", False)]


@pytest.mark.parametrize(("kind", "new", "built"), sampled(CASES, SAMPLE))
def test_a_model_goes_on_where_it_was_saved(kind: str, new: str, built: bool, tmp_path: Path) -> None:
    """Plain Keras goes on beside it. A model that is not built yet gets its values in `fit`."""
    old = made(kind, nullcontext(), True, plain)
    fit(old)
    path = sd.Checkpoint(model=old).save(tmp_path / "ckpt")
    expected = fit(old, 2)
    model = made(kind, STRATEGIES[new](), built)
    status = sd.Checkpoint(model=model).restore(path)
    found = fit(model, 2)
    status.assert_consumed()
    if kind == "sequential" and new != "no strategy":
        assert len(found) == 2, "its dropout draws other numbers under a strategy"
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert int(model.optimizer.iterations) == 6


@pytest.mark.parametrize("kind", sampled(MODELS, ["functional"]))
def test_a_plain_model_that_is_not_built_gets_its_values(kind: str, tmp_path: Path) -> None:
    model = made(kind, STRATEGIES["servers"](), True)
    fit(model)
    path = sd.Checkpoint(model=model).save(tmp_path / "ckpt")
    other = made(kind, nullcontext(), False, plain)
    status = sd.Checkpoint(model=other).restore(path)
    fit(other)
    status.assert_consumed()
    assert int(other.optimizer.iterations) == 4


def test_a_model_is_restored_to_predict_without_its_optimizer(tmp_path: Path) -> None:
    model = made("subclassed", STRATEGIES["mirrored"](), True)
    fit(model)
    path = sd.Checkpoint(model=model).save(tmp_path / "ckpt")
    other = MODELS["subclassed"](keras, False)
    status = sd.Checkpoint(model=other).restore(path)
    np.testing.assert_allclose(other.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5, atol=1e-6)
    status.assert_existing_objects_matched()
    assert status.superfluous and all(path.startswith(("model/optimizer", "model/metrics")) for path in status.superfluous)


def paths_of(holder: Any) -> list[str]:
    found = saved_variables(holder)
    assert found is not None
    return sorted(found.variables)


def test_paths_follow_the_structure_and_no_names() -> None:
    found = [paths_of(made("subclassed", nullcontext(), True)) for _ in range(2)]  # the second one's layers are called dense_2 and so on
    assert found[0] == found[1] and not [path for path in found[0] if "mixed" in path or "kernel" in path]
    assert {"vars/0", "last/vars/0", "last/vars/1", "optimizer/vars/0", "metrics/0/vars/0"} < set(found[0])
    assert len(found[0]) == 9 + 2 + 2 * 9 + 2, "weights; count and rate; slots; the mean loss"


def test_a_layer_that_two_models_share_is_saved_once(tmp_path: Path) -> None:
    with sd.MirroredStrategy(2).scope():
        shared = keras.layers.Dense(2)
        models = [keras.Sequential([keras.Input((4,)), shared, keras.layers.Dense(1)]) for _ in range(2)]
    path = sd.Checkpoint(a=models[0], b=models[1]).save(tmp_path / "ckpt")
    values = shared.get_weights()
    shared.set_weights([0 * value for value in values])
    status = sd.Checkpoint(b=models[1]).restore(path).expect_partial()
    assert sorted(status.restored) == [
        "b/layers/dense/vars/0",
        "b/layers/dense/vars/1",
        "b/layers/dense_1/vars/0",
        "b/layers/dense_1/vars/1",
    ]
    assert all((value == other).all() for value, other in zip(values, shared.get_weights(), strict=True))


def test_metrics_layers_and_variables_are_saved_alone(tmp_path: Path) -> None:
    def objects() -> dict[str, Any]:
        with sd.MirroredStrategy(2).scope():
            layer = keras.layers.Dropout(0.5)
            return {
                "mean": keras.metrics.Mean(),
                "sum": keras.metrics.Sum(),
                "v": keras.Variable([1.0, 2.0]),
                "layer": layer,
            }

    first, second = objects(), objects()
    first["mean"].update_state([1.0, 2.0, 6.0])
    first["sum"].update_state([4.0, 5.0])
    first["v"].assign([5.0, 6.0])
    sd.Checkpoint(**second).restore(sd.Checkpoint(**first).save(tmp_path / "ckpt")).assert_consumed()
    assert float(second["mean"].result()) == 3.0 and np.asarray(second["v"]).tolist() == [5.0, 6.0]
    assert float(second["sum"].result()) == 9.0


@pytest.mark.exhaustive
def test_the_metrics_of_a_model_go_on_within_an_epoch(tmp_path: Path) -> None:
    model = made("functional", STRATEGIES["mirrored"](), True)
    model.train_on_batch(X[:6], Y[:6])
    counts = [float(np.sum(np.asarray(v))) for metric in model.metrics for v in metric.variables]
    path = sd.Checkpoint(model=model).save(tmp_path / "ckpt")
    model.reset_metrics()
    sd.Checkpoint(model=model).restore(path).assert_consumed()
    assert [float(np.sum(np.asarray(v))) for metric in model.metrics for v in metric.variables] == counts and any(counts)


INNER: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: keras.layers.Bidirectional(keras.layers.LSTM(2)),
    "attention": lambda: keras.layers.MultiHeadAttention(2, 3),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("layer", INNER)
def test_layers_in_layers_are_saved(layer: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((2, 3, 4)).astype(np.float32)
    one, other = INNER[layer](), INNER[layer]()

    def call(found: Any) -> Any:
        return np.asarray(found(x, x) if layer == "attention" else found(x))

    expected = call(one)
    status = sd.Checkpoint(layer=other).restore(sd.Checkpoint(layer=one).save(tmp_path / "ckpt"))
    np.testing.assert_array_equal(call(other), expected)
    status.assert_consumed()


def stateful(strategy: Any, rows: int) -> Any:
    with strategy.scope() if hasattr(strategy, "scope") else nullcontext():
        cells = [keras.layers.SimpleRNNCell(2), keras.layers.LSTMCell(3)]
        model = keras.Sequential([keras.Input(batch_shape=(rows, 2, 1)), keras.layers.RNN(cells, stateful=True), keras.layers.Dense(1)])
    return model


def states_of(model: Any) -> list[Any]:
    return [np.asarray(state) for state in keras.tree.flatten(model.layers[0].states)]


@pytest.mark.parametrize("new", STRATEGIES)
def test_the_states_of_stateful_layers_are_saved_beside_their_weights(new: str, tmp_path: Path) -> None:
    model, other, of_another_size = (stateful(STRATEGIES[new](), rows) for rows in (4, 4, 3))
    for number, state in enumerate(keras.tree.flatten(model.layers[0].states)):
        state.assign(np.full(state.shape, 1.0 + number))
    path = sd.Checkpoint(model=model).save(tmp_path / "ckpt")
    sd.Checkpoint(model=other).restore(path).assert_consumed()
    assert [state.flat[0] for state in states_of(other)] == [1.0, 2.0, 3.0]
    status = sd.Checkpoint(model=of_another_size).restore(path)
    status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="nothing has taken: model/states_of_4_rows/layers/rnn/0"):
        status.assert_consumed()
    np.testing.assert_array_equal(of_another_size.get_weights()[0], model.get_weights()[0])
    assert not any(state.any() for state in states_of(of_another_size))


@pytest.mark.parametrize("quantized", [False, True])
def test_adapters_are_saved_beside_the_weights_that_they_change(quantized: bool, tmp_path: Path) -> None:
    """Keras' files have the weights with the product added, and adapters that are restored as zeros do not learn any more."""

    def adapted(value: float) -> Any:
        layer = keras.layers.Embedding(5, 4, embeddings_initializer="ones")
        layer.build()
        if quantized:
            layer.quantize("int8")
        layer.enable_lora(2, "zeros", keras.initializers.Constant(value))
        return layer

    layer, other = adapted(1.0), adapted(2.0)
    sd.Checkpoint(layer=other).restore(sd.Checkpoint(layer=layer).save(tmp_path / "ckpt")).assert_consumed()
    for one, restored in zip(layer.variables, other.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(restored), np.asarray(one), err_msg=one.path)


def test_weights_without_adapters_are_restored_into_a_layer_that_has_some(tmp_path: Path) -> None:
    base, other = keras.layers.Dense(3, kernel_initializer="ones"), keras.layers.Dense(3, kernel_initializer="zeros")
    base.build((2, 4))
    other.build((2, 4))
    other.enable_lora(2)
    status = sd.Checkpoint(layer=other).restore(sd.Checkpoint(layer=base).save(tmp_path / "ckpt"))
    np.testing.assert_array_equal(np.asarray(other.kernel), np.ones((4, 3)))
    with pytest.raises(AssertionError, match="lora_kernel_a"):
        status.assert_existing_objects_matched()


def test_a_model_of_another_structure_is_refused_and_one_without_a_layer_is_reported(tmp_path: Path) -> None:
    model = made("sequential", nullcontext(), True)
    path = sd.Checkpoint(model=model).save(tmp_path / "ckpt")
    wider = keras.Sequential([keras.Input((4,)), keras.layers.Dense(7), keras.layers.Dense(1)])
    before = wider.get_weights()
    with pytest.raises(InvalidArgumentError, match=r"model/layers/dense/vars/0 has shape \(4, 7\)"):
        sd.Checkpoint(model=wider).restore(path)
    assert all((a == b).all() for a, b in zip(before, wider.get_weights(), strict=True))
    shorter = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    with pytest.raises(AssertionError, match="values that nothing has taken"):
        sd.Checkpoint(model=shorter).restore(path).assert_consumed()


def test_what_is_no_object_of_keras_is_none() -> None:
    assert saved_variables(3) is None and saved_variables(X) is None
