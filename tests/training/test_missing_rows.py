"""A replica without rows of a batch, where layers cannot be called with none: results are those of plain Keras on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

ops = plain.ops
ROWS = 9  # the last batch of 4 has one row
rng = np.random.default_rng(0)
X = rng.random((ROWS, 3, 2), np.float32)
X /= X.max(axis=(1, 2), keepdims=True)  # the largest of each part is that of the whole batch
Y = rng.random((ROWS, 2), np.float32)
IDS = rng.integers(0, 50, (ROWS, 3), np.int32)

Make = Callable[[Any], Any]


class WhileTraining(plain.layers.Layer):
    """Lets code see the rows that a training step calls it with."""

    def __init__(self, code: Callable[[Any], object]) -> None:
        super().__init__()
        self.code = code

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.code(x)
        return x


def flat(t: Any) -> Any:
    return ops.reshape(t, (ops.shape(t)[0], -1))


def scaled(t: Any) -> Any:
    return ops.reshape(t / (1e-6 + ops.max(ops.abs(t))), (-1, 6))


STRATEGIES: dict[str, Callable[[], Any]] = {
    "two replicas": lambda: sd.MirroredStrategy(2),
    "three replicas": lambda: sd.MirroredStrategy(3),
    "two workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), devices_per_worker=2),
}


def compiled(model: Any, **options: Any) -> Any:
    model.compile(plain.optimizers.SGD(0.1), options.pop("loss", "mse"), metrics=["mae"], **options)
    return model


def dense(namespace: Any, of: Any = flat, *before: Any, **options: Any) -> Any:
    last = of if isinstance(of, plain.layers.Layer) else plain.layers.Lambda(of)
    layers = [plain.Input((3, 2)), *before, last, plain.layers.Dense(2, kernel_initializer="ones")]
    return compiled(namespace.Sequential(layers), **options)


def embedded(namespace: Any) -> Any:
    table = plain.layers.Embedding(50, 4, embeddings_initializer="ones")
    last = plain.layers.Dense(2, kernel_initializer="ones")
    return compiled(namespace.Sequential([plain.Input((3,), dtype="int32"), table, plain.layers.Lambda(flat), last]))


def in_scope(strategy: Any, make: Make) -> Any:
    plain.utils.set_random_seed(0)
    with strategy.scope():
        return make(keras)


def fitted(model: Any, x: Any = X) -> list[Any]:
    history = model.fit(x, Y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
    return [history["loss"], history["mae"], *(np.asarray(weight.value) for weight in model.weights)]


def require_close(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def of_keras(make: Make) -> Any:
    plain.utils.set_random_seed(0)
    return make(plain)


CASES: dict[str, tuple[Make, Any]] = {
    "a division by rows": (dense, X),
    "a largest row": (lambda namespace: dense(namespace, scaled), X),
    "rows of a table": (embedded, IDS),
    "draws": (lambda namespace: dense(namespace, flat, plain.layers.Dropout(0.0, seed=1)), X),
}


@pytest.mark.sample
@pytest.mark.filterwarnings("ignore::simdist.errors.DenseReadWarning")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_training_evaluation_and_prediction_are_those_of_one_device(strategy: str, case: str) -> None:
    make, x = CASES[case]
    model, expected = in_scope(STRATEGIES[strategy](), make), of_keras(make)
    for rows in (slice(1), slice(None)):
        np.testing.assert_allclose(model.predict(x[rows], batch_size=4, verbose=0), expected.predict(x[rows], verbose=0), rtol=1e-5)
        require_close(*(one.evaluate(x[rows], Y[rows], batch_size=4, verbose=0) for one in (model, expected)))
    require_close(fitted(model, x), fitted(expected, x))


def test_mains_that_have_no_rows_train_with_the_others() -> None:
    def main() -> list[Any]:
        return fitted(in_scope(sd.MultiWorkerMirroredStrategy(), dense))

    run = sd.Cluster({"worker": 3}).launch(main)
    run.join()
    expected = fitted(of_keras(dense))
    for number in range(3):
        require_close(run.results[f"worker:{number}"], expected)


def test_a_main_without_rows_in_the_first_batch_builds_a_loss_with_a_regularizer() -> None:
    def fitted_by_one(namespace: Any) -> list[float]:
        layer = plain.layers.Dense(2, kernel_initializer="ones", kernel_regularizer="l2")
        model = compiled(namespace.Sequential([plain.Input((3, 2)), plain.layers.Flatten(), layer]))
        return model.fit(X[:2], Y[:2], batch_size=1, shuffle=False, verbose=0).history["loss"]

    def main() -> list[float]:
        return in_scope(sd.MultiWorkerMirroredStrategy(), fitted_by_one)

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    expected = of_keras(fitted_by_one)
    assert all(found == pytest.approx(expected, rel=1e-5) for found in run.results.values())


def test_an_eager_step_has_the_same_results() -> None:
    found = fitted(in_scope(sd.MirroredStrategy(2), lambda namespace: dense(namespace, run_eagerly=True)))
    require_close(found, fitted(of_keras(dense)))


def test_an_eager_step_that_needs_values_has_no_rows_where_it_can() -> None:
    seen: list[int] = []
    before = WhileTraining(lambda x: seen.append(len(np.asarray(x))))  # a value that is traced has no array
    model = in_scope(sd.MirroredStrategy(2), lambda namespace: dense(namespace, plain.layers.Reshape((6,)), before, run_eagerly=True))
    fitted(model)
    assert set(seen) == {2, 1, 0}


def test_what_can_be_traced_without_rows_is_traced_once() -> None:
    shapes: list[int] = []

    def counted(t: Any) -> Any:
        shapes.append(t.shape[0])
        return ops.reshape(t, (-1, 6))

    model = in_scope(sd.MirroredStrategy(2), lambda namespace: dense(namespace, counted))
    model.train_on_batch(X[:2], Y[:2])
    shapes.clear()
    model.train_on_batch(X[:1], Y[:1])
    assert shapes == [1, 0]


# -- what layers remember --------------------------------------------------------------------------------------------------


class Remembering(plain.layers.Layer):
    """Counts its calls, and adds up what it has seen."""

    def build(self, _: Any) -> None:
        self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)
        self.largest = self.add_weight(name="largest", initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1.0)
        self.largest.assign(ops.maximum(self.largest.value, ops.max(x)))
        return x


@pytest.mark.parametrize("strategy", ["two replicas", "servers"])
def test_layers_remember_calls_and_no_row_of_zeros(strategy: str) -> None:
    normalization = plain.layers.BatchNormalization(momentum=0.5)
    model = in_scope(STRATEGIES[strategy](), lambda namespace: dense(namespace, flat, normalization, Remembering(dtype="float32")))
    model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    calls, _ = (weight for weight in model.layers[1].weights)
    assert float(calls.value) == 3.0
    # Two replicas have rows 0 to 3 and 4 to 7 by halves, and the first one has the last row.
    first, second = (np.float64(0), np.float64(0))
    for start in (0, 4):
        first = 0.5 * first + 0.5 * X[start : start + 2].mean(axis=(0, 1))
        second = 0.5 * second + 0.5 * X[start + 2 : start + 4].mean(axis=(0, 1))
        if strategy == "servers":
            first = second = (first + second) / 2
    first = 0.5 * first + 0.5 * X[8:].mean(axis=(0, 1))
    np.testing.assert_allclose(normalization.moving_mean.numpy(), (first + second) / 2, rtol=1e-5)


class CountingTraining(plain.layers.Layer):
    """Counts its calls in training."""

    def build(self, _: Any) -> None:
        self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign_add(1.0)
        return x


def test_a_row_of_zeros_does_not_train_the_layers_of_a_model_whose_call_has_no_argument_training() -> None:
    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.counting, self.last = CountingTraining(), plain.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.last(self.counting(scaled(x)))

    model = in_scope(sd.MirroredStrategy(2), lambda _: compiled(Model()))
    model.fit(X[:1], Y[:1], verbose=0)
    assert float(model.counting.calls.value) == 0.0


# -- what is refused -------------------------------------------------------------------------------------------------------


class OfRows(plain.layers.Layer):
    """Counts rows by their shape."""

    def build(self, _: Any) -> None:
        self.rows = self.add_weight(name="rows", initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        if isinstance(x.shape[0], int):
            self.rows.assign_add(float(x.shape[0]))
        return x


class OwnStep(keras.Sequential):
    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


def failing_from_no_rows_on(namespace: Any) -> Any:
    seen: list[int] = []

    def fail(x: Any) -> None:
        seen.append(x.shape[0])
        if 0 in seen:
            raise ValueError("no such rows")

    return dense(namespace, flat, WhileTraining(fail))


def with_own_step(_: Any) -> Any:
    return compiled(OwnStep([plain.Input((3, 2)), plain.layers.Lambda(flat), plain.layers.Dense(2)]))


def with_shared_statistics(namespace: Any) -> Any:
    return dense(namespace, flat, plain.layers.BatchNormalization(synchronized=True))


def with_a_mask(namespace: Any) -> Any:
    layers = [
        plain.Input((3, 2)),
        plain.layers.Lambda(lambda t: ops.reshape(t, (ops.shape(t)[0], 3, -1)), mask=lambda t, _: t[..., 0] > 0.5),
    ]
    return compiled(namespace.Sequential([*layers, plain.layers.Dense(2)]))


REFUSED: dict[str, tuple[Make, str]] = {
    "statistics of all replicas": (with_shared_statistics, "share what they compute .batch statistics"),
    "a denominator of all replicas": (with_a_mask, "share what they compute .loss denominator"),
    "a train_step": (with_own_step, "the train_step of .* cannot be traced without rows. ZeroDivisionError"),
    "a number of rows": (lambda namespace: dense(namespace, flat, OfRows()), "A layer assigns what it computes of the number of rows"),
    "no single row": (failing_from_no_rows_on, "fails with a row of zeros, too: ValueError: .*no such rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_row_of_zeros_would_change_is_refused(case: str) -> None:
    make, text = REFUSED[case]
    model = in_scope(sd.MirroredStrategy(2), make)
    targets = np.zeros((ROWS, 3, 2), np.float32) if make is with_a_mask else Y
    with pytest.raises(InvalidArgumentError, match=f"(?s){text}.*[Dd]rop the remainder") as caught:
        model.fit(X, targets, batch_size=4, shuffle=False, verbose=0)
    if case != "a number of rows":
        assert "Replica 1 has no rows of this batch (1 row for 2 replicas)" in str(caught.value)


def test_an_error_of_a_replica_with_rows_stays_what_it_is() -> None:
    def fail(_: Any) -> None:
        raise KeyError("of the layer")

    model = in_scope(sd.MirroredStrategy(2), lambda namespace: dense(namespace, flat, WhileTraining(fail)))
    with pytest.raises(KeyError, match="of the layer"):
        model.fit(X[:1], Y[:1], verbose=0)


def test_statistics_of_nothing_change_nothing_in_a_loop_of_ones_own() -> None:
    x, strategy = np.sin(np.arange(10, dtype=np.float32)).reshape(1, 5, 2), sd.MirroredStrategy(2)
    with strategy.scope():
        layer = plain.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 5, 2))
    alone: Any = plain.layers.BatchNormalization(momentum=0.5)
    alone.build((None, 5, 2))

    def losses(outputs: Any) -> Any:
        return jnp.sum(jnp.tanh(outputs + 0.3), axis=(1, 2))

    @sd.function
    def step(rows: Any) -> Any:
        def replica_fn(rows: Any) -> Any:
            return sd.value_and_grad(lambda: sd.compute_average_loss(losses(layer(rows, training=True))), layer.trainable_variables)()[1]

        return [strategy.reduce("sum", gradient, axis=None) for gradient in strategy.run(replica_fn, args=(rows,))]

    def loss_alone(trained: Any) -> Any:
        outputs, others = alone.stateless_call(trained, [variable.value for variable in alone.non_trainable_variables], x, training=True)
        return losses(outputs)[0], others

    found = step(next(iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(x).batch(4)))))
    expected, others = jax.grad(loss_alone, has_aux=True)([variable.value for variable in alone.trainable_variables])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    # The mean of the replica that has a row and of the other one, which keeps what it has.
    kept = [(before.value + after) / 2 for before, after in zip(alone.non_trainable_variables, others, strict=True)]
    np.testing.assert_allclose([variable.numpy() for variable in layer.non_trainable_variables], kept, rtol=1e-5)


def test_statistics_of_nothing_change_nothing_in_a_train_step_of_ones_own_as_in_the_compiled_one() -> None:
    class OwnStep(keras.Model):
        def train_step(self, state: Any, data: Any) -> Any:
            return super().train_step(state, data)

    found: list[list[np.ndarray]] = []
    x = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)
    for kind in (keras.Model, OwnStep):
        with sd.MirroredStrategy(4).scope():
            inputs = keras.Input((3,))
            outputs = keras.layers.Dense(1, kernel_initializer="ones")(keras.layers.BatchNormalization(momentum=0.5)(inputs))
            model = kind(inputs, outputs)
            model.compile(keras.optimizers.SGD(0.05), "mse")
        model.fit(x, x.sum(1, keepdims=True), batch_size=8, shuffle=False, verbose=0)  # of the last 3 rows one replica has none
        found.append(model.get_weights())
    for compiled, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, compiled, rtol=1e-5, atol=1e-6)
        assert np.isfinite(own).all()
