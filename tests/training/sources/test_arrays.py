"""Arrays of all kinds, alone and in structures, are read as plain Keras reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from tests.training.sources.models import LABELS, X, Y, agree, linear, mirrored, servers

EIGHT: dict[str, Any] = {"batch_size": 8, "epochs": 2}


AS_ARRAY: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": np.asarray,
    "JAX": jnp.asarray,
    "doubles": lambda a: a.astype(np.float64),
    "integers": lambda a: (10 * a).astype(np.int64),
}


@pytest.mark.parametrize("kind", sampled(AS_ARRAY, ["JAX", "integers"]))
def test_arrays_of_numpy_and_jax_of_any_dtype(kind: str) -> None:
    agree(lambda: (AS_ARRAY[kind](X), AS_ARRAY[kind](Y)), **EIGHT)


class Table:
    """Knows only how to become an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


def test_objects_that_can_become_an_array() -> None:
    agree(lambda: (Table(X), Table(Y)), **EIGHT)


def test_pandas_tables_and_columns_as_keras_converts_them() -> None:
    pandas = pytest.importorskip("pandas")
    table, column = pandas.DataFrame(X.astype(np.float64), columns=list("abc")), pandas.Series(Y[:, 0])
    history = agree(lambda: (table, column), validation_split=0.3, sample_weight=pandas.Series(np.arange(20.0)), **EIGHT)
    assert "val_loss" in history
    model = mirrored()
    np.testing.assert_array_equal(model.predict(table, verbose=0), model.predict(X, verbose=0))
    mixed = table.assign(a=np.arange(20))
    agree(lambda: (mixed, column), validation_data=(mixed, column), **EIGHT)


def test_weights_of_classes_with_columns_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    agree(lambda: (X, pandas.Series(LABELS[:, 0])), class_weight={0: 0.5, 1: 3.0}, **EIGHT)


def test_weights_of_classes_that_are_one_hot() -> None:
    def make(namespace: Any) -> Any:
        model = namespace.Sequential([keras.Input((3,)), keras.layers.Dense(2, "softmax", kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy")
        return model

    agree(lambda: (X, np.eye(2)[LABELS[:, 0].astype(int)]), make, class_weight={0: 0.5, 1: 3.0}, **EIGHT)


def two_by_two(namespace: Any) -> Any:
    """Inputs "a" and "b", outputs "p" and "q"."""
    inputs = {name: keras.Input((3,), name=name) for name in "ab"}
    total = inputs["a"] + 2 * inputs["b"]
    outputs = {name: keras.layers.Dense(1, kernel_initializer="ones", name=name)(total) for name in "pq"}
    model = namespace.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.01), {"p": "mse", "q": "mae"}, weighted_metrics={"p": ["mae"]})
    return model


def two_by_two_listed(namespace: Any) -> Any:
    inputs = [keras.Input((3,)), keras.Input((3,))]
    total = inputs[0] + 2 * inputs[1]
    model = namespace.Model(inputs, [keras.layers.Dense(1, kernel_initializer="ones", name=name)(total) for name in "pq"])
    model.compile(keras.optimizers.SGD(0.01), ["mse", "mae"])
    return model


WEIGHTS = {
    "none": None,
    "one for all outputs": np.arange(20.0),
    "one for each output": {"p": np.arange(20.0), "q": np.ones(20)},
}


@pytest.mark.parametrize("kind", sampled(WEIGHTS, ["one for all outputs", "one for each output"]))
def test_inputs_outputs_and_weights_by_name(kind: str) -> None:
    x, y = {"a": X, "b": X[::-1].copy()}, {"p": Y, "q": 3 * Y}
    history = agree(lambda: (x, y), two_by_two, sample_weight=WEIGHTS[kind], validation_split=0.25, **EIGHT)
    assert "val_p_mae" in history


def test_inputs_outputs_and_weights_in_lists() -> None:
    weights = [np.arange(20.0), np.ones(20)]
    agree(lambda: ([X, 2 * X], [Y, 3 * Y]), two_by_two_listed, sample_weight=weights, **EIGHT)
    agree(lambda: ((X, 2 * X), (Y, 3 * Y)), two_by_two_listed, validation_data=([X, X], [Y, Y]), **EIGHT)


def test_weights_of_rows_and_of_time_steps() -> None:
    def make(namespace: Any) -> Any:
        model = namespace.Sequential([keras.Input((3, 1)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.01), "mse")
        return model

    steps = np.random.default_rng(1).random((20, 3), np.float32)
    agree(lambda: (X[..., None], 2 * X[..., None]), make, sample_weight=steps, **EIGHT)


def test_the_last_part_is_split_off_before_the_shuffle() -> None:
    far = X.copy()
    far[15:] += 100
    model = mirrored()
    history = model.fit(far, Y, validation_split=0.25, batch_size=8, epochs=2, shuffle=True, verbose=0).history
    assert history["val_mae"][0] > 50 > history["mae"][0]


def test_an_epoch_that_the_end_of_the_data_cuts_short_is_the_last_one() -> None:
    for model in (mirrored(), servers()):
        with pytest.warns(UserWarning, match="after 1 of 2 steps; training stops here"):
            history = model.fit(X, Y, batch_size=8, epochs=5, steps_per_epoch=2, verbose=0).history
        assert len(history["loss"]) == 2 and int(model.optimizer.iterations) == 3


def test_data_that_was_read_to_its_end_begins_again_in_the_next_epoch_as_in_keras() -> None:
    agree(lambda: (X, Y), batch_size=5, epochs=4, steps_per_epoch=2)


REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "weights of classes of several outputs": (({"a": X, "b": X}, {"p": Y, "q": Y}), {"class_weight": {0: 1.0}}, "single output"),
    "weights by another name": (({"a": X, "b": X}, {"p": Y, "q": Y}), {"sample_weight": {"r": Y}}, "sample_weight"),
    "rows that do not match": (({"a": X, "b": X[:7]}, {"p": Y, "q": Y}), {}, "different numbers of rows: x has 20 and 7, y has 20 and 20"),
    "a split of rows that do not match": (({"a": X, "b": X}, {"p": Y, "q": Y[:9]}), {"validation_split": 0.5}, "y has 20 and 9. Give each"),
    "a split that leaves nothing": (({"a": X[:1], "b": X[:1]}, {"p": Y[:1], "q": Y[:1]}), {"validation_split": 0.5}, "not sufficient"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_keras_refuses_is_refused(kind: str) -> None:
    args, options, words = REFUSED[kind]
    with sd.MirroredStrategy(2).scope():
        model = two_by_two(keras)
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        model.fit(*args, verbose=0, **options)


WORDS = np.array(["a", "b"] * 10)[:, np.newaxis]


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.fit(X, WORDS, verbose=0),
        lambda model: model.fit(X, WORDS, validation_split=0.5, verbose=0),
        lambda model: model.fit(X, Y, validation_data=(X, WORDS), verbose=0),
        lambda model: model.evaluate(X, WORDS, verbose=0),
        lambda model: model.train_on_batch(X, WORDS),
    ],
)
def test_arrays_of_words_are_refused_by_the_name_of_the_argument(call: Callable[[Any], Any]) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"y of \w+ has the dtype str32, .* sd.StringLookup"):
        call(mirrored())


def test_arrays_of_objects_are_refused_with_their_conversion() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"x of predict has the dtype object, .* x.astype\(\"float32\"\)"):
        mirrored().predict(X.astype(object), verbose=0)


def test_datasets_of_words_are_refused_by_the_first_batch() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="a batch holds strings"):
        mirrored().fit(sd.Dataset.from_tensor_slices((X, WORDS)).batch(4), verbose=0)


def test_sparse_matrices_are_refused_with_their_conversion() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    model = mirrored()
    for matrix in (sparse.csr_matrix(X), sparse.coo_array(X)):
        for call in (lambda x: model.fit(x, Y, verbose=0), lambda x: model.evaluate(x, Y, verbose=0), model.predict):
            with pytest.raises(sd.errors.InvalidArgumentError, match=r"not dense.*toarray"):
                call(matrix)
    with pytest.raises(sd.errors.InvalidArgumentError, match="not dense"):
        model.fit(X, Y, validation_data=(sparse.csr_matrix(X), Y), verbose=0)


def test_sparse_arrays_of_jax_are_refused() -> None:
    sparse = pytest.importorskip("jax.experimental.sparse")
    with pytest.raises(sd.errors.InvalidArgumentError, match="todense"):
        mirrored().fit(sparse.BCOO.fromdense(X), Y, verbose=0)


NUMBERS: dict[str, Callable[[np.ndarray], list[Any]]] = {
    "Python": lambda values: values.tolist(),
    "numpy": list,
    "numpy, without axes": lambda values: [np.asarray(value) for value in values],
    "JAX": lambda values: list(jnp.asarray(values)),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_list_of_numbers_of_any_library_is_an_array(kind: str) -> None:
    weights = np.linspace(0.0, 2.0, len(X), dtype=np.float32)
    listed, model = NUMBERS[kind](weights), mirrored()
    # Keras itself takes no list of weights: it gets the array.
    expected = linear(plain).evaluate(X, Y, sample_weight=weights, verbose=0, return_dict=True)["loss"]
    assert model.evaluate(X, Y, sample_weight=listed, verbose=0, return_dict=True)["loss"] == pytest.approx(expected, rel=1e-5)
    assert model.fit(X, Y, sample_weight=listed, verbose=0, batch_size=len(X)).history["loss"] == pytest.approx([expected], rel=1e-5)


def test_what_is_iterated_elsewhere_is_refused_with_what_to_pass() -> None:
    model = servers()
    rows = sd.Dataset.from_tensor_slices((X, Y)).batch(4)
    per_worker = sd.ClusterCoordinator(model.distribute_strategy).create_per_worker_dataset(rows)
    for given, remedy in (
        (per_worker, r"got PerWorkerDataset\. .*sd\.DatasetCreator"),
        (iter(per_worker), r"sd\.DatasetCreator"),
        (iter(rows), r"got DatasetIterator\. Pass the dataset of which"),
        (iter(sd.MirroredStrategy(2).experimental_distribute_dataset(rows)), r"got DistributedIterator\. Pass the dataset of which"),
    ):
        with pytest.raises(TypeError, match=remedy):
            model.fit(given, verbose=0)
