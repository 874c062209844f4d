"""`keras.utils.PyDataset`: batches by number, in Keras' order, with Keras' hooks."""

from __future__ import annotations

import random
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from tests.training.sources.models import LABELS, X, Y, agree, batch, linear, mirrored, servers, under


class Pages(plain.utils.PyDataset):
    """Batches that change a little at the end of each epoch, and a diary of what was called.

    Args:
        count: batches; None is without an end.
        step: how much is added to them at the end of an epoch.
    """

    def __init__(self, count: int | None = 5, step: float = 0.1, **options: Any) -> None:
        super().__init__(**options)
        self.count, self.step, self.shift = count, step, 0.0
        self.diary: list[Any] = []

    @property
    def num_batches(self) -> int | None:
        return self.count

    def __getitem__(self, index: int) -> Any:
        self.diary.append(index)
        x, y = batch(index)
        return x + np.float32(self.shift), y

    def on_epoch_begin(self) -> None:
        self.diary.append("begin")

    def on_epoch_end(self) -> None:
        self.diary.append("end")
        self.shift += self.step


def test_batches_and_what_changes_between_epochs_are_those_of_keras() -> None:
    agree(lambda: (Pages(),), epochs=3)


def test_steps_without_regard_to_the_end_are_those_of_keras() -> None:
    agree(lambda: (Pages(),), epochs=2, steps_per_epoch=2)
    with pytest.warns(UserWarning, match="after 1 of 2 steps; training stops here"):
        assert len(mirrored().fit(Pages(), epochs=4, steps_per_epoch=2, verbose=0).history["loss"]) == 3
    agree(lambda: (Pages(None),), epochs=3, steps_per_epoch=2)


def test_validation_reads_it_after_every_epoch() -> None:
    assert len(agree(lambda: (X, Y), keyword=lambda: {"validation_data": Pages()}, epochs=3)["val_loss"]) == 3


@pytest.mark.parametrize("options", [{"epochs": 2}, {"epochs": 2, "steps_per_epoch": 2}])
@pytest.mark.filterwarnings("ignore:Your input ran out|The dataset ran out:UserWarning")
def test_hooks_and_batches_are_called_in_the_order_of_keras(options: dict[str, Any]) -> None:
    diaries = [Pages(), Pages()]
    for pages, model in zip(diaries, (linear(plain), mirrored()), strict=True):
        model.fit(pages, shuffle=False, verbose=0, **options)
    assert diaries[0].diary == diaries[1].diary
    assert diaries[0].diary[:4] == ["begin", 0, "end", "begin"]


def test_hooks_of_evaluation_and_prediction_are_those_of_keras() -> None:
    diaries = [Pages(), Pages()]
    results: list[Any] = []
    for pages, model in zip(diaries, (linear(plain), mirrored()), strict=True):
        model.evaluate(X, Y, verbose=0)
        results.append([model.evaluate(pages, verbose=0), model.evaluate(pages, verbose=0, steps=2), model.predict(pages, verbose=0).sum()])
    assert diaries[0].diary == diaries[1].diary
    for expected, found in zip(*results, strict=True):
        assert found == pytest.approx(expected, rel=1e-6)


def test_a_hook_ends_the_epoch_of_a_training_that_fails() -> None:
    class Broken(Pages):
        def __getitem__(self, index: int) -> Any:
            if index == 2:
                raise OSError("page 2 is gone")
            return super().__getitem__(index)

    pages = Broken()
    with pytest.raises(OSError, match="page 2"):
        mirrored().fit(pages, shuffle=False, verbose=0)
    assert pages.diary == ["begin", 0, "end", "begin", 0, 1, "end"]


def test_the_shuffle_is_of_batches_and_the_same_in_every_run() -> None:
    orders: list[Any] = []
    for _ in range(2):
        random.seed()
        pages = Pages()
        mirrored().fit(pages, epochs=2, verbose=0)
        orders.append([number for number in pages.diary[3:] if isinstance(number, int)])
    assert orders[0] == orders[1]
    first, second = orders[0][:5], orders[0][5:]
    assert sorted(first) == sorted(second) == [0, 1, 2, 3, 4]
    assert first != second


def test_workers_of_keras_are_not_started_and_change_nothing() -> None:
    one = agree(lambda: (Pages(),), epochs=2)
    for options in ({"workers": 4, "max_queue_size": 2}, {"workers": 2, "use_multiprocessing": True}):
        pages = Pages(**options)
        found = mirrored().fit(pages, epochs=2, shuffle=False, verbose=0).history
        assert found["loss"] == pytest.approx(one["loss"], rel=1e-6)
        assert pages.diary[4:10] == [0, 1, 2, 3, 4, "end"]  # in this process, or the diary would be empty


def test_weights_of_classes_are_those_of_keras() -> None:
    class Classes(plain.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            rows = slice(8 * index, 8 * index + 8)
            return [X[rows], LABELS[rows]]

    agree(lambda: (Classes(),), class_weight={0: 0.5, 1: 3.0}, epochs=2)


def of(value: Any) -> Any:
    class Same(plain.utils.PyDataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return value

    return Same()


def test_an_array_is_an_x_and_a_dict_are_inputs_by_name() -> None:
    model = mirrored()
    np.testing.assert_allclose(model.predict(of(X), verbose=0), np.tile(model.predict(X, verbose=0), (2, 1)), rtol=1e-6, atol=1e-6)
    with sd.MirroredStrategy(2).scope():
        inputs = {name: keras.Input((3,), name=name) for name in "ab"}
        named = keras.Model(inputs, inputs["a"] + 2 * inputs["b"])
    np.testing.assert_allclose(named.predict(of({"a": X, "b": X}), verbose=0), np.tile(3 * X, (2, 1)), rtol=1e-6, atol=1e-6)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "text": (of("page"), {}, "type str"),
    "no rows": (Pages(0), {}, "no data"),
    "no end": (Pages(None), {}, "steps_per_epoch is missing, and fit was given a PyDataset that has no end"),
    "shuffle without an end": (Pages(None), {"steps_per_epoch": 2, "shuffle": True}, "Leave shuffle out"),
    "y": (Pages(), {"y": Y}, "y was given together with a PyDataset"),
    "batch_size": (Pages(), {"batch_size": 2}, "batch_size was given together with a PyDataset"),
    "weights twice": (of((X, Y, Y[:, 0])), {"class_weight": {0: 2.0}}, "sample_weight already"),
    "weights of classes of several targets": (of((X, (Y, Y))), {"class_weight": {0: 2.0}}, "several targets"),
    "weights of classes in a list": (Pages(), {"class_weight": [1.0]}, "no dictionary"),
    "a split": (Pages(), {"validation_split": 0.5}, "x is a PyDataset"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_followed_is_refused(kind: str) -> None:
    data, options, words = REFUSED[kind]
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        mirrored().fit(data, verbose=0, **options)


def test_evaluation_of_one_without_an_end_needs_steps() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="evaluate was given a PyDataset that has no end"):
        mirrored().evaluate(Pages(None), verbose=0)
    assert mirrored().predict(Pages(None), steps=2, verbose=0).shape == (8, 1)


def test_workers_of_parameter_servers_make_the_batches_of_their_part_only() -> None:
    pages = Pages(4)
    servers().fit(pages, epochs=2, shuffle=False, verbose=0)
    numbers = [number for number in pages.diary if isinstance(number, int)]
    # One to build the model; then each worker reads its half of the four batches, twice, each batch once.
    assert sorted(numbers) == sorted([0, *(2 * [0, 1, 2, 3])])
    assert [entry for entry in pages.diary if isinstance(entry, str)] == 3 * ["begin", "end"]


def test_a_crash_of_a_worker_changes_no_more_than_for_arrays() -> None:
    losses: list[Any] = []
    for data in (Pages(5, step=0.0), sd.Dataset.from_tensor_slices((X, Y)).batch(4)):
        cluster = sd.Cluster({"worker": 3}, seed=1)
        model = under(sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue"))
        cluster.faults.crash("worker:1", after_steps=2)
        losses += model.fit(data, shuffle=False, verbose=0).history["loss"]
    assert losses[0] == losses[1]
