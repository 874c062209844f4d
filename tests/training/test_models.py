"""Models in the usual style of Keras train unmodified under every strategy that fits, with the losses of plain Keras (class E2)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from usual_models import BATCH, MODELS, data_of

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
STEPS = 20
RTOL = 1e-4

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored 2": lambda: sd.MirroredStrategy(2),
    "mirrored 3": lambda: sd.MirroredStrategy(3),
    "central storage": lambda: sd.CentralStorageStrategy(2),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "one worker": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
    "rounds": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync"),
}
# Of the table, each strategy, and each model but two, whose parts other tests compare with plain Keras, too.
SAMPLE = {
    "cnn": "tpu",
    "resnet block": "central storage",
    "lstm": "workers",
    "attention": "rounds",
    "two towers": "one worker",
    "gan": "mirrored 2",
    "mixed inputs": "one device",
    "layer with state": "mirrored 3",
}
# In rounds, a step must not read what it has changed; and each worker of a round counts its own steps.
UNFIT = {("gan", "rounds"), ("layer with state", "rounds")}
EXPECTED: dict[str, tuple[list[np.ndarray], dict[str, list[float]]]] = {}


def plainly(name: str) -> tuple[list[np.ndarray], dict[str, list[float]]]:
    """The first weights of plain Keras, and its history of one step an epoch."""
    if name not in EXPECTED:
        model = MODELS[name](plain)
        x, y = data_of(name)
        model.predict(jax.tree_util.tree_map(lambda leaf: leaf[:BATCH], x), verbose=0)
        first = model.get_weights()
        history: dict[str, list[float]] = {}
        for number in range(STEPS):
            at = number * BATCH % len(jax.tree_util.tree_leaves(y)[0])
            batch = jax.tree_util.tree_map(lambda leaf, at=at: leaf[at : at + BATCH], (x, y))
            logs = model.fit(*batch, batch_size=BATCH, shuffle=False, verbose=0).history
            for key, value in logs.items():
                history.setdefault(key, []).extend(value)
        EXPECTED[name] = first, history
    return EXPECTED[name]


def require_those_of_keras(name: str, strategy: str) -> None:
    first, expected = plainly(name)
    data = data_of(name)
    with STRATEGIES[strategy]().scope():
        model = MODELS[name](keras)
    model.predict(jax.tree_util.tree_map(lambda leaf: leaf[:BATCH], data[0]), verbose=0)
    model.set_weights(first)
    # A round takes a batch for each worker.
    parts = 2 if strategy == "rounds" else 1
    dataset = sd.Dataset.from_tensor_slices(data).batch(BATCH // parts).repeat()
    found = model.fit(dataset, epochs=STEPS, steps_per_epoch=parts, verbose=0).history
    assert set(found) == set(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=RTOL, atol=1e-6, err_msg=key)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SAMPLE)
def test_models_train_unmodified_with_the_losses_of_keras(name: str) -> None:
    require_those_of_keras(name, SAMPLE[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "strategy"), [pair for pair in product(MODELS, STRATEGIES) if pair not in UNFIT])
def test_all_models_train_under_all_strategies_with_the_losses_of_keras(name: str, strategy: str) -> None:
    require_those_of_keras(name, strategy)


def test_two_updates_one_after_the_other_are_refused_in_rounds() -> None:
    with pytest.raises(sd.errors.FailedPreconditionError, match="after it has changed it"):
        require_those_of_keras("gan", "rounds")
