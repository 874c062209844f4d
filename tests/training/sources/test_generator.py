"""Generators: one pass, in order, and no batch more than is used; the losses are those of plain Keras."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import simdist as sd
from tests.training.sources.models import X, Y, agree, batch, batches, linear, mirrored, servers, under


def endless() -> Iterator[Any]:
    return (batch(number) for number in count())


def test_a_finite_generator_is_one_epoch() -> None:
    agree(lambda: (batches(5),))
    agree(lambda: (batches(1),))


def test_an_endless_generator_goes_on_from_epoch_to_epoch() -> None:
    agree(lambda: (endless(),), epochs=3, steps_per_epoch=2)


def test_batches_may_differ_in_rows_and_hold_weights() -> None:
    def uneven() -> Iterator[Any]:
        for first, last in ((0, 1), (1, 8), (8, 13), (13, 20)):
            yield X[first:last], Y[first:last], np.arange(first, last, dtype=np.float64)

    agree(lambda: (uneven(),))


def test_each_batch_is_taken_once_and_only_when_it_is_used() -> None:
    taken: list[int] = []
    generator, model = batches(10, taken), mirrored()
    model.fit(generator, steps_per_epoch=3, verbose=0)
    assert taken == [0, 1, 2]
    model.fit(generator, epochs=2, steps_per_epoch=2, verbose=0)
    assert taken == list(range(7))


def test_training_stops_with_a_warning_where_epochs_are_left_and_batches_are_not() -> None:
    for options in ({}, {"steps_per_epoch": 4}):
        with pytest.warns(UserWarning, match="read only once; training stops here, and 2 of the epochs"):
            history = mirrored().fit(batches(4), epochs=3, verbose=0, **options).history
        assert len(history["loss"]) == 1
    with pytest.warns(UserWarning, match=r"after 1 of 2 steps; training stops here"):
        history = mirrored().fit(batches(3), epochs=3, steps_per_epoch=2, verbose=0).history
    assert len(history["loss"]) == 2


def test_validation_takes_its_batches_once_and_reads_them_after_every_epoch() -> None:
    taken: list[int] = []
    agree(lambda: (X, Y), keyword=lambda: {"validation_data": endless()}, epochs=3, validation_steps=2)
    history = mirrored().fit(X, Y, epochs=3, verbose=0, validation_data=batches(5, taken)).history
    assert taken == list(range(5))
    mirrored().fit(X, Y, epochs=2, verbose=0, validation_data=batches(5, taken), validation_steps=2)
    assert taken == [*range(5), 0, 1]
    assert len(history["val_loss"]) == 3
    with pytest.raises(sd.errors.InvalidArgumentError, match="validation_data was given no data"):
        mirrored().fit(X, Y, verbose=0, validation_data=batches(0))


def test_evaluation_and_prediction_read_a_generator_to_its_end_or_for_some_steps() -> None:
    model = mirrored()
    assert model.evaluate(batches(5), verbose=0) == pytest.approx(model.evaluate(X, Y, verbose=0), rel=1e-6)
    np.testing.assert_allclose(model.predict(batches(5), verbose=0), model.predict(X, verbose=0), rtol=1e-6, atol=1e-6)
    assert model.predict(endless(), steps=3, verbose=0).shape == (12, 1)


@pytest.mark.parametrize("strategy", ["workers", "launched"])
def test_several_workers_share_each_batch(strategy: str) -> None:
    expected = agree(lambda: (batches(5),))["loss"]

    def main() -> list[float]:
        return under(sd.MultiWorkerMirroredStrategy()).fit(batches(5), verbose=0).history["loss"]

    with sd.Cluster({"worker": 2}) as cluster:
        if strategy == "launched":
            launched = cluster.launch(main)
            launched.join()
            found = launched.results["worker:1"]
        else:
            found = under(sd.MultiWorkerMirroredStrategy(cluster)).fit(batches(5), verbose=0).history["loss"]
    assert found == pytest.approx(expected, rel=1e-6)


def test_workers_of_parameter_servers_take_each_batch_of_a_generator_once() -> None:
    for data in (batches(5), sd.Dataset.from_iterable(batches(5))):
        model = servers()
        model.fit(data, epochs=2, steps_per_epoch=2, verbose=0)
        assert int(model.optimizer.iterations) == 4
    assert model.fit(sd.Dataset.from_iterable(lambda: batches(5)), steps_per_epoch=2, verbose=0).history["loss"]
    assert len(model.evaluate(batches(5), verbose=0)) == 2


BATCHES: dict[str, tuple[Any, str]] = {
    "an array": (X, "ndarray"),
    "a dict": ({"x": X}, "dict"),
    "four parts": ((X, Y, Y, Y), "4 parts"),
    "nothing": (None, "NoneType"),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_batches_that_are_no_tuples_of_x_y_and_weights_are_refused(kind: str) -> None:
    value, words = BATCHES[kind]
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        mirrored().fit((value for _ in range(2)), verbose=0)


def test_sparse_batches_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(sd.errors.InvalidArgumentError, match="a generator: a csr_matrix of scipy is not dense"):
        mirrored().fit(((sparse.csr_matrix(X), Y) for _ in range(2)), verbose=0)


BESIDE: dict[str, Any] = {"y": Y, "batch_size": 4, "shuffle": True, "sample_weight": Y, "class_weight": {0: 1.0}, "validation_split": 0.5}


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_generator_holds_itself_is_refused_beside_it(name: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=rf"{name}.* a generator"):
        mirrored().fit(batches(5), verbose=0, **{name: BESIDE[name]})


def test_an_empty_generator_and_one_that_was_used_up_have_no_data() -> None:
    used, model = batches(1), under(sd.OneDeviceStrategy(), linear)
    model.fit(used, verbose=0)
    for generator in (batches(0), used):
        with pytest.raises(sd.errors.InvalidArgumentError, match="no data"):
            model.fit(generator, verbose=0)


def test_an_error_of_the_generator_is_the_error_of_fit() -> None:
    def broken() -> Iterator[Any]:
        yield batch(0)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        mirrored().fit(broken(), verbose=0)
