"""Where a training stands: what a position holds, what it refuses, and what callbacks have counted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from simdist import keras
from simdist.checkpoint.plain_state import plain
from simdist.errors import InvalidArgumentError
from simdist.training.callback_counts import counts_of, set_counts
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
    callbacks[3].epoch, callbacks[3].history = [0, 1], {"loss": [1.0, 0.5], "vector": [np.array([1.0, 2.0])]}
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
    assert history.epoch == [0, 1] and history.history == {"loss": [1.0, 0.5], "vector": [[1.0, 2.0]]} and own.state == 5


def test_counts_are_of_the_moment_they_were_read() -> None:
    history = found.History()
    history.set_model(keras.Sequential([]))
    history.on_train_begin()
    history.on_epoch_end(0, {"loss": 1.0})
    position = TrainingPosition(Steps(), [history])
    state = plain(position.state_dict(), "training")
    history.on_epoch_end(1, {"loss": 0.5})
    other = found.History()
    set_counts(other, state["callbacks"][0])
    assert other.history == {"loss": [1.0]} and history.history == {"loss": [1.0, 0.5]}


def test_an_input_of_which_nobody_knows_where_it_stands_is_left_alone() -> None:
    position = TrainingPosition(Steps(None), [])
    other = TrainingPosition(Steps("untouched"), [])
    other.load_state_dict(position.state_dict())
    assert other.steps.position() == "untouched"


GOOD = {"epoch": 1, "batch": 0, "input": None, "callbacks": []}


@pytest.mark.parametrize(
    "state",
    [None, 3, [], {}, {"epoch": 1}, *({**GOOD, name: "x"} for name in ("epoch", "batch", "steps_per_epoch")), {**GOOD, "callbacks": 5}],
)
def test_what_is_no_position_is_refused_and_changes_nothing(state: Any) -> None:
    position = TrainingPosition(Steps(1), [], epoch=4)
    with pytest.raises(InvalidArgumentError, match="not a saved position of a training"):
        position.load_state_dict(state)
    assert (position.epoch, position.batch, position.steps.position()) == (4, 0, 1)


def test_epochs_begin_with_the_batches_that_are_done_once() -> None:
    position = TrainingPosition(Steps(), [])
    position.load_state_dict({"epoch": 2, "batch": 3, "input": None, "callbacks": []})
    assert [position.begin_epoch(epoch) for epoch in (2, 3, 4)] == [3, 0, 0]
    assert (position.epoch, position.batch) == (4, 0)


def test_counts_of_other_callbacks_are_left_alone() -> None:
    position = TrainingPosition(Steps(), counted())
    other: Any = TrainingPosition(Steps(), [found.History(), found.EarlyStopping(patience=1)])
    other.load_state_dict(plain(position.state_dict(), "training"))
    other.begin()
    assert other.callbacks[0].history == {} and other.callbacks[1].wait == 0
    set_counts(Counting(1), {"kind": "EarlyStopping", "wait": 2})
    assert counts_of(found.LambdaCallback()) is None and counts_of(found.CSVLogger("x")) is None


def test_a_subclass_of_a_known_callback_counts_as_it_does() -> None:
    class Mine(keras.callbacks.EarlyStopping):
        pass

    mine, other, parent = Mine(), Mine(), found.EarlyStopping()
    mine.wait = 6
    counts = counts_of(mine)
    assert counts is not None
    set_counts(other, counts)
    set_counts(parent, counts)
    assert other.wait == 6 and parent.wait == 0


def test_best_weights_are_given_back_when_the_callbacks_have_begun() -> None:
    stopping: Any = found.EarlyStopping(restore_best_weights=True)
    position = TrainingPosition(Steps(), [stopping])
    best = BestWeights(stopping, position)
    assert dict(best.arrays()) == {}
    weights = [np.array(number, np.float32) for number in range(12)]
    best.restore({str(number): weight for number, weight in enumerate(weights)})
    stopping.on_train_begin()
    assert stopping.best_weights is None
    position.begin()
    given: Any = stopping.best_weights
    assert [float(weight) for weight in given] == list(range(12)) and len(best.arrays()) == 12
