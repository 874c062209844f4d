"""tf.data: read batch by batch where TensorFlow is installed; a stand-in shows what the adapter asks of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from tests.training.sources.models import LABELS, X, Y, agree, batch, mirrored, servers

UNKNOWN, ENDLESS = -2, -1


class DatasetV2:
    """Five batches; named like the class of tf.data."""

    def __init__(self, cardinality: int = 5, convert: Callable[[Any], Any] = lambda pair: pair) -> None:
        self.count, self.convert = cardinality, convert

    def cardinality(self) -> Any:
        return np.asarray(self.count)

    def __iter__(self) -> Iterator[Any]:
        number = 0
        while self.count == ENDLESS or number < 5:
            yield self.convert(batch(number))
            number += 1


DatasetV2.__module__ = "tensorflow.python.data.ops.dataset_ops"


def sparse_tensor() -> Any:
    class SparseTensor:
        pass

    SparseTensor.__module__ = "tensorflow.python.framework.sparse_tensor"
    return SparseTensor()


@pytest.mark.parametrize("cardinality", [5, UNKNOWN])
def test_batches_are_read_again_in_each_epoch(cardinality: int) -> None:
    wanted = agree(lambda: (X, Y), batch_size=4, epochs=2)
    found = mirrored().fit(DatasetV2(cardinality), epochs=2, verbose=0, validation_data=DatasetV2()).history
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-6)
    assert len(found["val_loss"]) == 2


def test_one_without_an_end_needs_steps() -> None:
    model = mirrored()
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"a tf\.data\.Dataset that has no end"):
        model.fit(DatasetV2(ENDLESS), verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"evaluate was given a tf\.data\.Dataset that has no end"):
        model.evaluate(DatasetV2(ENDLESS), verbose=0)
    assert len(model.fit(DatasetV2(ENDLESS), epochs=2, steps_per_epoch=7, verbose=0).history["loss"]) == 2


def test_weights_of_classes_are_followed() -> None:
    labels = {x.tobytes(): y for x, y in ((X[4 * n : 4 * n + 4], LABELS[4 * n : 4 * n + 4]) for n in range(5))}
    data = DatasetV2(convert=lambda pair: (pair[0], labels[pair[0].tobytes()]))
    wanted = agree(lambda: (X, LABELS), batch_size=4, class_weight={0: 0.5, 1: 3.0})
    assert mirrored().fit(data, class_weight={0: 0.5, 1: 3.0}, verbose=0).history["loss"] == pytest.approx(wanted["loss"], rel=1e-6)


def test_inputs_by_name_are_predicted() -> None:
    with sd.MirroredStrategy(2).scope():
        inputs = {"a": keras.Input((3,), name="a")}
        model = keras.Model(inputs, 2 * inputs["a"])
    np.testing.assert_allclose(model.predict(DatasetV2(convert=lambda pair: {"a": pair[0]}), verbose=0), 2 * X, rtol=1e-6, atol=1e-6)


def test_options_beside_it_and_tensors_that_are_not_dense_are_refused() -> None:
    model = mirrored()
    for name, value in {"y": Y, "batch_size": 4, "shuffle": True, "sample_weight": Y, "validation_split": 0.5}.items():
        with pytest.raises(sd.errors.InvalidArgumentError, match=rf"{name}.*a tf.data.Dataset"):
            model.fit(DatasetV2(), verbose=0, **{name: value})
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"SparseTensor of tensorflow.*tf\.sparse\.to_dense"):
        model.fit(DatasetV2(convert=lambda pair: (sparse_tensor(), pair[1])), verbose=0)


def test_what_a_strategy_of_tensorflow_distributed_is_refused() -> None:
    distributed = DatasetV2()
    distributed.cardinality = 5  # type: ignore
    with pytest.raises(TypeError, match="DatasetV2 of TensorFlow, whose parts"):
        mirrored().fit(distributed, verbose=0)


def test_workers_of_parameter_servers_read_passes_of_their_own() -> None:
    assert len(servers().fit(DatasetV2(), epochs=2, verbose=0).history["loss"]) == 2


@pytest.mark.skipif(not any(map(find_spec, ("tensorflow", "torch", "grain"))), reason="none of them is here to be imported")
def test_tensorflow_and_torch_are_not_imported() -> None:
    code = (
        "import sys, numpy as np, simdist as sd\n"
        "from simdist import keras\n"
        "with sd.OneDeviceStrategy().scope():\n"
        "    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])\n"
        "    model.compile('sgd', 'mse')\n"
        "model.fit(((np.ones((4, 3)), np.ones((4, 1))) for _ in range(2)), verbose=0)\n"
        "print(sorted({'tensorflow', 'torch', 'grain'} & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert found.stdout.strip() == "[]"


def test_a_real_dataset_of_tensorflow() -> None:
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(8)
    agree(lambda: (data,), epochs=2, class_weight={0: 0.5, 1: 3.0})
    agree(lambda: (data.repeat(),), epochs=2, steps_per_epoch=2)
    agree(lambda: (tf.constant(X), tf.constant(Y)), batch_size=8)
