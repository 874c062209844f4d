"""`sd.Dataset` and what strategies make of it, as sources: what they say of themselves, and epochs that begin again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.training.sources import Source, training_source
from tests.training.sources.models import LABELS, X, Y, agree, batches, mirrored, servers

DATA = sd.Dataset.from_tensor_slices((X, Y)).batch(8)


def source_of(x: Any, strategy: Any = None, **options: Any) -> Source:
    model: Any = SimpleNamespace(simdist_state=SimpleNamespace(strategy=strategy or sd.MirroredStrategy(2)))
    given: dict[str, Any] = {"y": None, "shuffle": None, "batch_size": None, "steps": None} | options
    return training_source(model, x, **given)


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        (DATA, (3, True)),
        (DATA.repeat(), (None, True)),
        (DATA.filter(lambda x, y: True), (None, True)),
        (DATA.map(lambda x, y: (np.sqrt(x), y)), (3, True)),
        (sd.Dataset.from_iterable(list(batches(5))), (5, True)),
        (sd.Dataset.from_iterable(lambda: batches(5)), (None, True)),
        (sd.Dataset.from_iterable(batches(5)), (None, False)),
        (sd.Dataset.from_iterable(batches(5)).prefetch(2), (None, False)),
        (sd.Dataset.from_iterable(batches(5)).cache(), (None, True)),
        (sd.DatasetCreator(lambda context: DATA), (None, True)),
    ],
)
def test_a_source_says_how_many_batches_it_has_and_whether_they_can_be_read_again(data: Any, facts: Any) -> None:
    source = source_of(data)
    assert (source.num_batches, source.can_restart) == facts


def test_arrays_are_a_source_of_batches_by_number() -> None:
    source = source_of(X, y=Y, batch_size=8)
    assert (source.num_batches, source.can_restart, source.may_change) == (3, True, False)


def test_distributed_data_says_what_its_dataset_says() -> None:
    strategy = sd.MirroredStrategy(2)
    assert source_of(strategy.distribute_dataset(DATA), strategy).can_restart
    assert not source_of(strategy.distribute_dataset(sd.Dataset.from_iterable(batches(5))), strategy).can_restart


@pytest.mark.parametrize("distribute", [False, True])
def test_an_epoch_begins_with_the_first_batch_when_all_were_read(distribute: bool) -> None:
    model = mirrored()
    even = sd.Dataset.from_tensor_slices((X, Y)).batch(5)
    data = model.simdist_strategy.distribute_dataset(even) if distribute else even
    found = model.fit(data, epochs=4, steps_per_epoch=2, verbose=0).history["loss"]
    assert found == pytest.approx(agree(lambda: (X, Y), batch_size=5, epochs=4, steps_per_epoch=2)["loss"], rel=1e-6)


def test_a_dataset_of_a_generator_is_one_epoch() -> None:
    with pytest.warns(UserWarning, match="a dataset like this can be read only once"):
        found = mirrored().fit(sd.Dataset.from_iterable(batches(5)), epochs=2, verbose=0).history["loss"]
    assert found == pytest.approx(agree(lambda: (batches(5),))["loss"], rel=1e-6)


def test_parameter_servers_take_what_they_have_distributed_as_the_plain_dataset() -> None:
    model = servers()
    distributed = model.simdist_strategy.distribute_dataset(DATA)
    assert np.isfinite(model.fit(distributed, epochs=2, verbose=0).history["loss"]).all()


WEIGHTS = {0: 0.5, 1: 3.0}


@pytest.mark.parametrize("labels", [LABELS, LABELS[:, 0].astype(int), np.eye(2, dtype=np.float32)[LABELS[:, 0].astype(int)][:, ::-1]])
@pytest.mark.sample(2)
def test_weights_of_classes_count_beside_a_dataset_as_beside_arrays(labels: np.ndarray) -> None:
    wanted = agree(lambda: (X, labels), batch_size=8, epochs=2, class_weight=WEIGHTS)
    data = sd.Dataset.from_tensor_slices((X, labels)).batch(8)
    found = mirrored().fit(data, epochs=2, class_weight=WEIGHTS, verbose=0).history
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-6)
    assert found["loss"] != pytest.approx(mirrored().fit(data, epochs=2, verbose=0).history["loss"], rel=1e-3)


def test_weights_of_classes_count_on_parameter_servers_too() -> None:
    data = sd.Dataset.from_tensor_slices((X[:8], LABELS[:8])).batch(8).repeat()
    losses = [
        servers().fit(data, steps_per_epoch=1, class_weight=weights, verbose=0).history["loss"][0] for weights in (None, {0: 2.0, 1: 2.0})
    ]
    assert losses[1] == pytest.approx(2 * losses[0], rel=1e-6)


def test_weights_of_classes_beside_what_they_do_not_fit_are_refused() -> None:
    model = mirrored()
    with pytest.raises(sd.errors.InvalidArgumentError, match="class_weight was given together with a dataset that is distributed already"):
        model.fit(model.simdist_strategy.distribute_dataset(DATA), class_weight=WEIGHTS, verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="no dictionary"):
        model.fit(DATA, class_weight=[0.5, 3.0], verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="hold a sample_weight already"):
        model.fit(sd.Dataset.from_tensor_slices((X, LABELS, LABELS[:, 0])).batch(8), class_weight=WEIGHTS, verbose=0)
