"""Slots of Keras optimizers in a program that trains other layers than the one that saved: each belongs to its variable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.checkpoint.slots import SavedSlots

X = np.random.default_rng(0).random((32, 6)).astype("float32")
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2)),
}


def built(strategy: Any, frozen: str, fits: bool) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), *(keras.layers.Dense(6, use_bias=False, name=name) for name in "abc")])
        for name in frozen:
            model.get_layer(name).trainable = False
        model.compile(keras.optimizers.Adam(0.01), "mse")
    if fits:
        model.fit(X, X, batch_size=8, verbose=0)
    return model


def slots_of(model: Any) -> dict[str, Any]:
    """Slots by their layer and kind, such as "a_kernel_momentum"."""
    return {"_".join(one.path.split("_")[-3:]): np.asarray(one) for one in model.optimizer.variables if one.shape}


@pytest.mark.parametrize("is_built", [True, False], ids=["built before", "built after"])
@pytest.mark.parametrize(("first", "second"), [("a", ""), ("", "a"), ("a", "b")])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_slots_go_to_the_variables_that_had_them(kind: str, first: str, second: str, is_built: bool, tmp_path: Path) -> None:
    strategy, other = STRATEGIES[kind](), STRATEGIES[kind]()
    saved = built(strategy, first, fits=True)
    path = sd.Checkpoint(model=saved).save(tmp_path / "ckpt")
    model = built(other, second, fits=False)
    if is_built:
        model.optimizer.build(model.trainable_variables)
    status = sd.Checkpoint(model=model).restore(path).expect_partial()
    model.optimizer.build(model.trainable_variables)
    expected, found = slots_of(saved), slots_of(model)
    assert set(found) - set(expected) == {name for name in found if name[0] in first and name[0] not in second}
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected.get(name, np.zeros((6, 6))))
    assert len(status.missing) == len(set(found) - set(expected))
    for one in (strategy, other):
        one.cluster.close()


def test_slots_keep_their_numbers_where_it_is_not_known_whose_they_are() -> None:
    alone = {"opt/2": "sgd/first_w_momentum", "opt/3": "sgd/first_b_momentum"}
    now = {"w": "second/w", "b": "second/b", "opt/2": "sgd_1/second_b_momentum"}
    assert SavedSlots(alone, {}).moved(now) == {}
    assert SavedSlots({**alone, "w": "first/w"}, {}).moved(now) == {}, "of one of them it is not known"
    assert SavedSlots({**alone, "w": "first/w", "b": "first/b", "x/b": "first/b"}, {}).moved(now) == {}, "two have one name"
    assert SavedSlots({**alone, "w": "first/w", "b": "first/b"}, {}).moved({"opt/2": "sgd_1/second_b_momentum"}) == {}


def test_a_slot_of_a_variable_that_had_none_is_missing_and_others_are_found_by_their_kind() -> None:
    saved = SavedSlots(
        {"x": "m/x", "y": "m/y", "opt/2": "adam/m_x_momentum", "opt/3": "adam/m_x_velocity", "opt/0": "adam/iteration"}, {"z": "x"}
    )
    assert saved.moved({"y": "n/y", "opt/2": "adam/n_y_momentum"}) == {"opt/2": None}
    assert saved.moved({"z": "n/z", "opt/4": "adam/n_z_velocity", "opt/0": "adam/iteration"}) == {"opt/4": "opt/3"}
