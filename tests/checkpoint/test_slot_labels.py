"""Optimizers that are saved without their variables: labels say whose each slot is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.checkpoint.slot_labels import Label
from simdist.checkpoint.slots import SavedSlots
from simdist.errors import InvalidArgumentError

X = np.random.default_rng(0).random((16, 6)).astype("float32")
variable: Any = sd.Variable


class Tally(keras.optimizers.SGD):
    """SGD with slots that no optimizer of Keras has: sums of the gradients, in a dict."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.tallies = {number: self.add_variable_from_reference(one, name="tally") for number, one in enumerate(variables)}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_add(self.tallies[self._get_variable_index(variable)], gradient)
        super().update_step(gradient, variable, learning_rate)


OPTIMIZERS: dict[str, Callable[[], Any]] = {"Adam": lambda: keras.optimizers.Adam(0.01), "own": lambda: Tally(0.01)}


def model_of(frozen: str, optimizer: Any, names: str = "abc", fits: bool = True) -> Any:
    """A model of layers of one shape, of which some are frozen, by number; layers called "-" get names that Keras counts up."""
    with sd.OneDeviceStrategy().scope():
        value = inputs = keras.Input((6,))
        for name in names:
            value = keras.layers.Dense(6, use_bias=False, name=None if name == "-" else name)(value)
        model = keras.Model(inputs, value)
        for number, layer in enumerate(model.layers[1:]):
            layer.trainable = str(number) not in frozen
        model.compile(optimizer, "mse")
    if fits:
        model.fit(X, X, batch_size=8, verbose=0)
    else:
        model.optimizer.build(model.trainable_variables)
    return model


def kept(model: Any) -> dict[int, list[list[float]]]:
    """What the optimizer keeps for each trained layer, by the number of the layer."""
    trained = [number for number, layer in enumerate(model.layers[1:]) if layer.trainable]
    slots = [np.asarray(one).ravel().tolist() for one in model.optimizer.variables if one.shape]
    each = len(slots) // len(trained)
    return {number: slots[each * position : each * (position + 1)] for position, number in enumerate(trained)}


@pytest.mark.sample(at_most=3)
@pytest.mark.parametrize("names", ["abc", "---"])
@pytest.mark.parametrize(("first", "second"), [("", ""), ("0", ""), ("", "0"), ("0", "1"), ("0", "2"), ("12", "01")])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_slots_of_a_compiled_optimizer_that_is_saved_alone_go_to_the_layers_that_had_them(
    kind: str, first: str, second: str, names: str, tmp_path: Path
) -> None:
    make = OPTIMIZERS[kind]
    saved, model = model_of(first, make(), names), model_of(second, make(), names, fits=False)
    path = sd.Checkpoint(opt=saved.optimizer).save(tmp_path / "ckpt")
    status = sd.Checkpoint(opt=model.optimizer).restore(path).expect_partial()
    expected, found = kept(saved), kept(model)
    for number, slots in found.items():
        assert slots == expected.get(number, [[0.0] * 36] * len(slots)), f"layer {number}"
    assert bool(status.missing) == bool(found.keys() - expected.keys())
    assert int(model.optimizer.iterations) == 2


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_model_with_one_layer_more_is_refused_before_anything_changes(kind: str, tmp_path: Path) -> None:
    path = sd.Checkpoint(opt=model_of("", OPTIMIZERS[kind]()).optimizer).save(tmp_path / "ckpt")
    model = model_of("", OPTIMIZERS[kind](), "nabc", fits=False)
    with pytest.raises(InvalidArgumentError, match=r"opt has slots of n/kernel, a/kernel, .* has slots of a/kernel, b/kernel"):
        sd.Checkpoint(opt=model.optimizer).restore(path)
    assert int(model.optimizer.iterations) == 0
    assert not np.any(list(kept(model).values()))


def test_an_optimizer_that_is_built_after_the_restore_is_refused_as_it_is_built(tmp_path: Path) -> None:
    path = sd.Checkpoint(opt=model_of("", OPTIMIZERS["Adam"]()).optimizer).save(tmp_path / "ckpt")
    with sd.OneDeviceStrategy().scope():
        optimizer = sd.Optimizer(OPTIMIZERS["Adam"]())
        own = [variable(np.zeros((6, 6), np.float32), name=name) for name in ("x", "y", "z")]
    sd.Checkpoint(opt=optimizer).restore(path).expect_partial()
    with pytest.raises(InvalidArgumentError, match="opt has slots of x, y, z, and the checkpoint has slots of a/kernel"):
        optimizer.build(own)


def loop(names: str, build: bool = True) -> Any:
    """An optimizer of a loop of one's own."""
    with sd.OneDeviceStrategy().scope():
        own = [variable(np.ones(3, np.float32) * ord(name), name=name) for name in names]
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0, momentum=0.5))
    if build:
        optimizer.apply_gradients([(one.numpy(), one) for one in own])
    else:
        optimizer.build(own)
    return optimizer


def momenta(optimizer: Any) -> list[float]:
    return [float(np.asarray(one)[0]) for one in optimizer.wrapped.variables if one.shape]


@pytest.mark.parametrize("saved", ["abc", "ca", "aa"])
def test_slots_of_variables_of_a_loop_are_known_by_name(saved: str, tmp_path: Path) -> None:
    path = sd.Checkpoint(opt=loop(saved)).save(tmp_path / "ckpt")
    other = loop(saved, build=False)
    sd.Checkpoint(opt=other).restore(path).assert_consumed()
    assert momenta(other) == [-float(ord(name)) for name in saved]
    if len(set(saved)) == len(saved):
        backwards = loop(saved[::-1], build=False)
        sd.Checkpoint(opt=backwards).restore(path).assert_consumed()
        assert momenta(backwards) == [-float(ord(name)) for name in saved[::-1]]


def test_a_checkpoint_that_was_saved_while_slots_waited_has_their_labels(tmp_path: Path) -> None:
    saved, model = model_of("0", OPTIMIZERS["own"]()), model_of("1", OPTIMIZERS["own"](), fits=False)
    between = sd.Checkpoint(opt=Tally(0.01))
    between.restore(sd.Checkpoint(opt=saved.optimizer).save(tmp_path / "first")).expect_partial()
    sd.Checkpoint(opt=model.optimizer).restore(between.save(tmp_path / "second")).expect_partial()
    assert kept(model) == {0: [[0.0] * 36], 2: kept(saved)[2]}


def owners(*found: tuple[str, str]) -> dict[str, Label]:
    return {f"opt/{number}": Label(str(number), "momentum", "", name, position) for number, (name, position) in enumerate(found)}


@pytest.mark.parametrize(
    ("saved", "present", "moved"),
    [
        ([("d", "0"), ("d_1", "1")], [("d_1", "0"), ("d_2", "1")], {}),  # a later model, whose names go on
        ([("d", "0"), ("d_1", "1")], [("d_1", "1"), ("d_2", "2")], {"opt/0": "opt/1", "opt/1": None}),  # others are trained
        ([("d", "0"), ("d_1", "1")], [("d_4", "1")], {"opt/0": "opt/1"}),  # a later model, of which less is trained
        ([("d", "0"), ("d_1", "1")], [("d_1", "0")], "whose is whose"),  # the name says another one than the position
        ([("d", ""), ("d_1", "")], [("d_1", ""), ("d_2", "")], "whose is whose"),  # of a later model, or of other layers
        ([("a", ""), ("b", "")], [("b", ""), ("c", "")], {"opt/0": "opt/1", "opt/1": None}),
        ([("a", ""), ("a", "")], [("a", "")], "whose is whose"),
        ([("a", "0"), ("a", "1")], [("a", "1")], {"opt/0": "opt/1"}),
    ],
)
def test_whose_slots_are_is_known_by_position_and_by_name_where_these_agree(saved: Any, present: Any, moved: Any) -> None:
    names = {f"opt/{number}": "sgd/momentum" for number in range(2)}
    slots = SavedSlots(names, {}, owners(*saved))
    if isinstance(moved, str):
        with pytest.raises(InvalidArgumentError, match=moved):
            slots.moved(names, {}, owners(*present))
    else:
        assert slots.moved(names, {}, owners(*present)) == moved
