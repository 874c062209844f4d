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
from simdist.errors import InvalidArgumentError

X = np.random.default_rng(0).random((32, 6)).astype("float32")
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2)),
}


def built(strategy: Any, frozen: str, fits: bool, optimizer: Any = None) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), *(keras.layers.Dense(6, use_bias=False, name=name) for name in "abc")])
        for name in frozen:
            model.get_layer(name).trainable = False
        model.compile(optimizer or keras.optimizers.Adam(0.01), "mse")
    if fits:
        model.fit(X, X, batch_size=8, verbose=0)
    return model


def slots_of(model: Any) -> dict[str, Any]:
    """Slots by their layer and kind, such as "a_kernel_momentum"."""
    return {"_".join(one.path.split("_")[-3:]): np.asarray(one) for one in model.optimizer.variables if one.shape}


@pytest.mark.sample
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


def test_slots_of_which_it_is_not_known_whose_they_are_are_refused() -> None:
    alone = {"opt/2": "sgd/first_w_momentum", "opt/3": "sgd/first_b_momentum"}
    now = {"w": "second/w", "b": "second/b", "opt/2": "sgd_1/second_b_momentum"}
    words = "opt has slots of second_b, and the checkpoint has slots of first_"
    for names in (alone, {**alone, "w": "first/w"}):
        with pytest.raises(InvalidArgumentError, match=words):
            SavedSlots(names, {}).moved(now, {})
    with pytest.raises(InvalidArgumentError, match=words):
        SavedSlots({**alone, "w": "first/w", "b": "first/b"}, {}).moved({"opt/2": "sgd_1/second_b_momentum"}, {})
    assert SavedSlots({**alone, "w": "first/w", "b": "first/b", "x/b": "first/b"}, {}).moved(now, {}) == {"opt/2": None}, "one name of two"
    assert SavedSlots(alone, {}).moved({"opt/2": "sgd/first_b_momentum"}, {}) == {"opt/2": "opt/3"}, "the same name"
    assert SavedSlots(alone, {}).moved({"opt/2": "sgd_1/first_w_momentum", "opt/3": "sgd_1/first_b_momentum"}, {}) == {}


def test_a_slot_of_a_variable_that_had_none_is_missing_and_others_are_found_by_their_kind() -> None:
    saved = SavedSlots(
        {"x": "m/x", "y": "m/y", "opt/2": "adam/m_x_momentum", "opt/3": "adam/m_x_velocity", "opt/0": "adam/iteration"}, {"z": "x"}
    )
    assert saved.moved({"y": "n/y", "opt/2": "adam/n_y_momentum"}, {}) == {"opt/2": None}
    assert saved.moved({"z": "n/z", "opt/4": "adam/n_z_velocity", "opt/0": "adam/iteration"}, {}) == {"opt/4": "opt/3"}


def arrays_by_layer(model: Any) -> dict[str, list[np.ndarray]]:
    """What the optimizer keeps for each kernel, by its layer, and under "all" what belongs to all of them; in the optimizer's order."""
    found: dict[str, list[np.ndarray]] = {"all": []}
    optimizer = model.optimizer
    each = (len(optimizer.variables) - len([one for one in optimizer.variables if not one.shape])) // len(model.trainable_variables)
    kept = [np.asarray(one) for one in optimizer.variables if one.shape]
    for number, kernel in enumerate(model.trainable_variables):
        found[kernel.path.split("/")[1]] = kept[number * each : (number + 1) * each]
    return found | {"all": [np.asarray(one) for one in optimizer.variables if not one.shape]}


@pytest.mark.sample
@pytest.mark.parametrize("kind", ["Adafactor", "Nadam", "Muon", "Ftrl"])
@pytest.mark.parametrize(("first", "second"), [("a", ""), ("", "a"), ("a", "b")])
def test_slots_that_are_called_otherwise_go_to_their_variables_too(kind: str, first: str, second: str, tmp_path: Path) -> None:
    make = getattr(keras.optimizers, kind)
    saved = built(sd.OneDeviceStrategy(), first, True, make(0.01))
    path = sd.Checkpoint(model=saved).save(tmp_path / "ckpt")
    model = built(sd.OneDeviceStrategy(), second, False, make(0.01))
    model.optimizer.build(model.trainable_variables)
    before = arrays_by_layer(model)
    sd.Checkpoint(model=model).restore(path).expect_partial()
    expected, found = arrays_by_layer(saved), arrays_by_layer(model)
    for layer, arrays in found.items():
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(array, expected.get(layer, before[layer])[number])


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("was_first", [True, False])
def test_slots_of_an_optimizer_that_is_saved_by_a_name_of_its_own_go_to_their_variables(
    was_first: bool, is_first: bool, tmp_path: Path
) -> None:
    def checkpoint(model: Any, first: bool) -> sd.Checkpoint:
        names = {"optimizer": model.optimizer, "model": model}
        return sd.Checkpoint(**(names if first else dict(reversed(names.items()))))

    saved, model = built(sd.OneDeviceStrategy(), "a", fits=True), built(sd.OneDeviceStrategy(), "", fits=False)
    path = checkpoint(saved, was_first).save(tmp_path / "ckpt")
    model.optimizer.build(model.trainable_variables)
    status = checkpoint(model, is_first).restore(path).expect_partial()
    expected, found = slots_of(saved), slots_of(model)
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected.get(name, np.zeros((6, 6))))
    assert len(status.missing) == 2


def test_a_slot_of_which_only_the_number_is_known_takes_nothing_of_a_known_one() -> None:
    saved = SavedSlots({"x": "m/x", "y": "m/d", "z": "m/d", "opt/2": "sgd/m_x_momentum"}, {})
    now = {"x": "n/x", "y": "n/d", "z": "n/d", "opt/2": "sgd/n_d_momentum", "opt/3": "sgd/n_d_momentum", "opt/4": "sgd/n_x_momentum"}
    assert saved.moved(now, {}) == {"opt/2": None, "opt/3": None, "opt/4": "opt/2"}
    assert saved.moved({name: path for name, path in now.items() if name != "opt/4"}, {}) == {"opt/2": None, "opt/3": None}
    several = {"x": "m/x", "y": "m/d", "z": "m/d", "opt/2": "sgd/m_d_momentum", "opt/3": "sgd/m_d_momentum", "opt/4": "sgd/m_x_momentum"}
    assert SavedSlots(several, {}).moved({"x": "n/x", "y": "n/d", "z": "n/d", "opt/2": "sgd/n_x_momentum"}, {}) == {"opt/2": "opt/4"}


def test_a_variable_of_the_program_is_no_slot_whatever_its_name(tmp_path: Path) -> None:
    def variables(*names: str) -> dict[str, sd.Variable]:
        with sd.OneDeviceStrategy().scope():
            return {path: sd.Variable(float(number), name=name) for number, (path, name) in enumerate(zip("abc", names, strict=True), 1)}

    path = sd.Checkpoint(**variables("loss", "rate", "loss_average")).save(tmp_path / "ckpt")
    found = variables("loss", "rate", "rate_average")
    found["c"].assign(0.0)
    sd.Checkpoint(**found).restore(path).assert_consumed()
    assert float(found["c"].numpy()) == 3.0


KINDS = ("slow", "fast")


def two(slots: Any, key: Any) -> Any:
    return [kind[key] for kind in slots]


# What the optimizer keeps of its variables, by attribute; and the two slots of a variable with a path and a number.
KEPT: dict[str, tuple[Any, Any]] = {
    "pairs": (
        lambda every, add: {"slots": [(add(one, "slow"), add(one, "fast")) for one in every]},
        lambda kept, _, number: kept.slots[number],
    ),
    "tuples": (
        lambda every, add: {kind: tuple([add(one, kind) for one in every]) for kind in KINDS},
        lambda kept, _, n: two((kept.slow, kept.fast), n),
    ),
    "dicts": (
        lambda every, add: {"slots": {one.path: {kind: add(one, kind) for kind in KINDS} for one in every}},
        lambda kept, path, _: kept.slots[path].values(),
    ),
    "lists in a dict": (
        lambda every, add: {"slots": {kind: [add(one, kind) for one in every] for kind in KINDS}},
        lambda kept, _, number: two(kept.slots.values(), number),
    ),
    "in another order": (
        lambda every, add: {kind: {one.path: add(one, kind) for one in reversed(every)} for kind in KINDS},
        lambda kept, path, _: two((kept.slow, kept.fast), path),
    ),
}


class Momenta(keras.optimizers.Optimizer):
    """Slow and fast momentum, which it keeps as `KEPT` says."""

    def __init__(self, kept: str, learning_rate: float = 0.1) -> None:
        super().__init__(learning_rate)
        self.kept = kept

    def get_config(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def build(self, variables: Any) -> None:
        if not self.built:
            super().build(variables)
            for name, value in KEPT[self.kept][0](variables, self.add_variable_from_reference).items():
                setattr(self, name, value)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        slow, fast = KEPT[self.kept][1](self, variable.path, self._get_variable_index(variable))
        self.assign(slow, slow * 0.9 + gradient)
        self.assign(fast, fast * 0.5 + gradient)
        self.assign_sub(variable, learning_rate * (slow + fast))


@pytest.mark.parametrize(("first", "second"), [("a", ""), ("", "a")])
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.sample
def test_slots_of_an_optimizer_of_ones_own_go_to_their_variables_however_it_keeps_them(
    kept: str, first: str, second: str, tmp_path: Path
) -> None:
    saved = built(sd.OneDeviceStrategy(), first, True, Momenta(kept))
    model = built(sd.OneDeviceStrategy(), second, False, Momenta(kept))
    sd.Checkpoint(model=model).restore(sd.Checkpoint(model=saved).save(tmp_path / "ckpt")).expect_partial()
    model.optimizer.build(model.trainable_variables)
    expected, found = slots_of(saved), slots_of(model)
    assert len(found) == 2 * len(model.trainable_variables)
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected.get(name, np.zeros((6, 6))))
