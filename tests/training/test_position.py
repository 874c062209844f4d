"""Where a training stands: what a position holds, what it refuses, and what callbacks have counted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from simdist import keras
from simdist.checkpoint.plain_state import plain
from simdist.errors import InvalidArgumentError
from simdist.training.callback_counts import named
from simdist.training.callbacks.best_weights import BestWeights
from simdist.training.position import TrainingPosition

found: Any = keras.callbacks


class Steps:
    """Input at a number."""

    is_quiet = True

    def __init__(self, at: Any = 0) -> None:
        self.at = at

    def position(self) -> Any:
        return self.at

    def go_to(self, position: Any) -> None:
        self.at = position


class Counting(keras.callbacks.Callback):
    """A callback of a user with a state of its own."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def state_dict(self) -> Any:
        return {"of the user": self.state}

    def load_state_dict(self, state: Any) -> None:
        self.state = state["of the user"]


def counted() -> list[Any]:
    """Callbacks that have counted."""
    callbacks = [found.EarlyStopping(patience=3), found.ReduceLROnPlateau(), found.ModelCheckpoint("x.keras", save_freq=5), found.History()]
    for callback in callbacks[:2]:
        callback.on_train_begin()
    callbacks[0].wait, callbacks[0].best, callbacks[0].best_epoch = 2, 0.25, 7
    callbacks[1].wait, callbacks[1].best, callbacks[1].cooldown_counter = 4, np.float32(0.5), 1
    callbacks[2]._batches_seen_since_last_saving, callbacks[2].best = 3, 0.75
    callbacks[3].epoch, callbacks[3].history = [0, 1], {"loss": [1.0, 0.5], "vector": [np.array([1.0, 2.0], np.float32)]}
    return [*callbacks, Counting(5), found.LambdaCallback()]


def fresh() -> list[Any]:
    return [
        found.EarlyStopping(),
        found.ReduceLROnPlateau(),
        found.ModelCheckpoint("x.keras"),
        found.History(),
        Counting(0),
        found.LambdaCallback(),
    ]


def test_a_position_goes_through_json_to_another_training() -> None:
    position = TrainingPosition(Steps({"consumed": 8}), counted(), epoch=2)
    position.batch = 3
    state = json.loads(json.dumps(plain(position.state_dict(), "training")))
    other: Any = TrainingPosition(Steps(), fresh())
    other.load_state_dict(state)
    assert (other.epoch, other.batch, other.steps.position()) == (2, 3, {"consumed": 8})
    for callback in other.callbacks[:2]:
        callback.on_train_begin()  # which sets what they count to its beginning
    other.begin()
    stopping, plateau, checkpoint, history, own, _ = other.callbacks
    assert (stopping.wait, stopping.best, stopping.best_epoch) == (2, 0.25, 7)
    assert (plateau.wait, plateau.best, plateau.cooldown_counter) == (4, 0.5, 1)
    assert checkpoint._batches_seen_since_last_saving == 3 and checkpoint.best == 0.75
    assert history.epoch == [0, 1] and history.history["loss"] == [1.0, 0.5] and own.state == 5
    (vector,) = history.history["vector"]
    assert isinstance(vector, np.ndarray) and vector.dtype == np.float32 and vector.tolist() == [1.0, 2.0]


def test_counts_are_of_the_moment_they_were_read() -> None:
    history = found.History()
    history.set_model(keras.Sequential([]))
    history.on_train_begin()
    history.on_epoch_end(0, {"loss": 1.0})
    position = TrainingPosition(Steps(), [history])
    state = plain(position.state_dict(), "training")
    history.on_epoch_end(1, {"loss": 0.5})
    fresh = found.History()
    other = TrainingPosition(Steps(), [fresh])
    other.load_state_dict(state)
    other.begin()
    assert fresh.history == {"loss": [1.0]} and history.history == {"loss": [1.0, 0.5]}


def test_an_input_of_which_nobody_knows_where_it_stands_is_left_alone() -> None:
    position = TrainingPosition(Steps(None), [])
    other = TrainingPosition(Steps("untouched"), [])
    other.load_state_dict(position.state_dict())
    assert other.steps.position() == "untouched"


GOOD = {"epoch": 1, "batch": 0, "input": None, "callbacks": {}}


@pytest.mark.parametrize(
    "state",
    [None, 3, [], {}, {"epoch": 1}, *({**GOOD, name: "x"} for name in ("epoch", "batch", "steps_per_epoch")), {**GOOD, "callbacks": 5}],
)
def test_what_is_no_position_is_refused_and_changes_nothing(state: Any) -> None:
    position = TrainingPosition(Steps(1), [], epoch=4)
    with pytest.raises(InvalidArgumentError, match="not a saved position of a training"):
        position.load_state_dict(state)
    assert (position.epoch, position.batch, position.steps.position()) == (4, 0, 1)


def test_a_backup_that_knows_callbacks_by_their_places_is_refused_by_name() -> None:
    position = TrainingPosition(Steps(1), [], epoch=4)
    with pytest.raises(InvalidArgumentError, match=r"an earlier version of simdist.*delete the backup"):
        position.load_state_dict({**GOOD, "callbacks": [{"kind": "History", "state": {}, "number": 0}]})
    assert (position.epoch, position.batch, position.steps.position()) == (4, 0, 1)


def test_epochs_begin_with_the_batches_that_are_done_once() -> None:
    position = TrainingPosition(Steps(), [])
    position.load_state_dict({"epoch": 2, "batch": 3, "input": None, "callbacks": {}})
    assert [position.begin_epoch(epoch) for epoch in (2, 3, 4)] == [3, 0, 0]
    assert (position.epoch, position.batch) == (4, 0)


def given(callbacks: list[Any], position: TrainingPosition) -> TrainingPosition:
    """A training with these callbacks that goes on from there."""
    other = TrainingPosition(Steps(), callbacks)
    other.load_state_dict(plain(position.state_dict(), "training"))
    other.begin()
    return other


def test_counts_find_their_callbacks_in_another_order_and_between_others() -> None:
    position = TrainingPosition(Steps(), counted())
    stopping, plateau, checkpoint, history, own, other = fresh()
    given([other, history, found.CSVLogger("x"), own, found.LambdaCallback(), checkpoint, plateau, stopping], position)
    assert (stopping.wait, plateau.wait, checkpoint.best, own.state) == (2, 4, 0.75, 5) and history.epoch == [0, 1]


def test_callbacks_of_one_kind_are_told_apart_by_what_they_monitor_and_then_by_their_order() -> None:
    def stoppings(*monitors: str) -> list[Any]:
        return [found.EarlyStopping(monitor) for monitor in monitors]

    before = stoppings("loss", "mae", "loss")
    before[0].wait, before[1].wait, before[2].wait = 1, 2, 3
    after = stoppings("mae", "loss", "loss", "val_loss")
    other = given(after, TrainingPosition(Steps(), before))
    assert [stopping.wait for stopping in after] == [2, 1, 3, 0]
    assert other.unlike() == ([], ["EarlyStopping('val_loss')"])


def test_counts_of_other_callbacks_are_left_alone_and_named() -> None:
    class Mine(keras.callbacks.EarlyStopping):
        pass

    stopping, mine, first, second = found.EarlyStopping("loss"), Mine(), Counting(0), Counting(1)
    other = given([stopping, mine, first, second], TrainingPosition(Steps(), counted()))
    assert stopping.wait == mine.wait == 0 and (first.state, second.state) == (5, 1)
    assert other.unlike() == (
        ["EarlyStopping('val_loss')", "ReduceLROnPlateau('val_loss')", "ModelCheckpoint('val_loss')", "History"],
        ["EarlyStopping('loss')", "Mine('val_loss')", "Counting.state_dict() number 2"],
    )
    assert not named([found.LambdaCallback(), found.CSVLogger("x")])


def test_a_subclass_of_a_known_callback_counts_as_it_does() -> None:
    class Mine(keras.callbacks.EarlyStopping):
        pass

    before, after = Mine(), Mine()
    before.wait = 6
    given([after], TrainingPosition(Steps(), [before]))
    assert after.wait == 6


def test_best_weights_are_given_back_when_the_callbacks_have_begun() -> None:
    before, stopping = (found.EarlyStopping(restore_best_weights=True) for _ in range(2))
    before.best_weights = [np.array(number, np.float32) for number in range(12)]
    saved = BestWeights(TrainingPosition(Steps(), [found.History(), before])).arrays()
    position = TrainingPosition(Steps(), [stopping])
    best = BestWeights(position)
    assert dict(best.arrays()) == {}
    best.restore({name: saved[name] for name in sorted(saved)})
    stopping.on_train_begin()
    assert stopping.best_weights is None
    position.begin()
    given: Any = stopping.best_weights
    assert [float(weight) for weight in given] == list(range(12)) and len(best.arrays()) == 12
