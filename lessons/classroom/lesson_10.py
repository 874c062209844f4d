"""The exercises of lesson 10, evaluation three ways, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

import simdist as sd
from classroom.answers import a_function, lowered
from classroom.evaluations import (
    BATCH,
    EPOCHS,
    ROWS,
    WAYS,
    batches,
    busy_seconds,
    count_right,
    make_cluster,
    make_model,
    outcome,
    quiet_log,
    x_test,
    x_train,
    y_test,
    y_train,
)
from classroom.exercise import Exercise, NotAnswered
from classroom.values import described, plain
from simdist import keras

__all__ = [
    "WHY_IN_TURN",
    "WHY_ONCE",
    "WHY_PASSED_OVER",
    "WHY_STILL",
    "CountedModel",
    "first_exercise",
    "second_exercise",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_STILL = """
The loop is on the chief, and the chief is one machine: 17.6 seconds, however many workers there are. They wait. `evaluate` gives them the
batches, so that four need a quarter of the time of one, like the training. (With one worker `evaluate` takes longer than the loop, because
it computes the loss as well.)
"""

WHY_ONCE = r"""
Each worker shuffles **all** examples in an order of its own, and takes seven batches of it: 3,500 of 10,007, or 35 %, drawn without asking
the others. So an example counts exactly once with probability $3 \cdot 0.35 \cdot 0.65^2 = 44\,\%$, and never with $0.65^3 = 27\,\%$. No
error says so, and the accuracy looks plausible: it is that of a random sample, in which some examples weigh two or three times.
"""

WHY_PASSED_OVER = """
It passes over epochs 3 and 5. The evaluator needs 19 seconds for all examples, and an epoch takes 10.4. Each time it takes the *newest*
file: that of epoch 1, then 2 (3 is not yet saved, by a second), then 4, then 6. A file that is older than another one is not read any more.
"""

WHY_IN_TURN = """
As long as with one worker: 21.6 seconds. The second batch needs what the layer remembers of the first, so it cannot begin before that
one has ended. The workers take turns, and three of four are idle at any moment. (It takes 1.6 seconds longer than without the layer, for
what the layer itself computes.)
"""

# -- what is measured ---------------------------------------------------------------------------------------------------

WANTED_END_S = 80.0
WANTED_NUMBERS = 3
MOST_BEHIND = 100
LONGEST_S = 8.0  # of an evaluation by several workers; batch after batch takes at least 17 s
CLOSE = 1e-5
LOGGED = ([1.0, 1.0, 0.0, 1.0], 0.75), ([0.0, 0.0], 0.5)  # batches, and the share of all examples so far


@cache
def known_weights() -> tuple[np.ndarray, np.ndarray]:
    """Weights that compare an image with the mean image of each digit."""
    means = np.stack([x_train[y_train == digit].mean(axis=0) for digit in range(10)])
    return means.T, -0.5 * (means**2).sum(axis=1)


def model_on(cluster: sd.Cluster, make: Callable[[], Any] = make_model) -> tuple[Any, sd.ParameterServerStrategy]:
    """A model with the known weights, and its strategy."""
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        model = make()
    model.set_weights(list(known_weights()))
    return model, strategy


@cache
def shares() -> tuple[float, float]:
    """The share of all examples that the model gets right, and the mean of the shares of the batches."""
    kernel, bias = known_weights()
    right = (x_test @ kernel + bias).argmax(axis=1) == y_test
    parts = [right[first : first + BATCH].mean() for first in range(0, ROWS, BATCH)]
    return float(right.mean()), float(np.mean(parts))


def compared(share: float) -> str | None:
    """What is wrong with a share of right examples."""
    expected, mean_of_means = shares()
    if abs(share - expected) <= CLOSE:
        return None
    if abs(share - mean_of_means) <= CLOSE:
        return f"{share:.4f} is the mean of the shares of the batches. The last batch has 7 examples, and weighs as much as one of 500."
    if abs(share - expected * ROWS) <= 0.5:
        return f"{share:.0f} is how many examples are right; expected is their share."
    return f"the share came out as {share:.6g}; {expected:.6f} of the {ROWS:,} examples are right."


# -- the checks ---------------------------------------------------------------------------------------------------------


def by_hand(function: Callable[..., Any]) -> str | None:
    """A function that evaluates on workers of which one dies."""
    cluster = make_cluster(workers=3)
    model, strategy = model_on(cluster)
    cluster.faults.crash("worker:1", at=cluster.now + 1.0, restart_after=1.0)
    begun_s = cluster.now
    with quiet_log():
        found = function(sd.ClusterCoordinator(strategy), count_right(model), batches())
    if found is ...:
        raise NotAnswered
    share = plain(found)
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        remote = " Its values are with the workers: fetch them." if isinstance(found, sd.RemoteValue) else ""
        return f"your function returned {described(found)}; expected is the share of the right examples, a number.{remote}"
    busy_s = busy_seconds(cluster, begun_s, cluster.now)
    if busy_s.get("chief:0"):
        return "the chief has counted by itself, and no worker helped. Schedule the step."
    if not any(busy_s.values()):
        return "no worker has counted anything. Schedule the step, once for each batch, and add up what comes back."
    problem, seconds = compared(share), cluster.now - begun_s
    if problem is None and seconds > LONGEST_S:
        return f"the share is right, but it took {seconds:.1f} s: one batch waits for the other. Schedule all of them before you wait."
    return problem


def chosen(answer: Any) -> str | None:
    """A way of evaluation, and how often, which keep to the limits."""
    if not isinstance(answer, dict) or set(map(str, answer)) != {"way", "every"}:
        return f"{described(answer)} is no dict with a way and how often: give for example {{'way': 'chief', 'every': 1}}."
    given = cast("dict[str, Any]", answer)
    way, every = lowered(given["way"]), plain(given["every"])
    if way not in WAYS:
        return f"{described(given['way'])} is no way: give one of {', '.join(map(repr, WAYS))}."
    if type(every) not in (int, float) or every not in range(1, EPOCHS + 1):
        return f"{described(given['every'])} is no number of epochs: give a whole number from 1 to {EPOCHS}."
    found = outcome(way, int(cast("float", every)))
    if found.end_s > WANTED_END_S:
        return f"the training ends at {found.end_s:.1f} s, and stood still for {found.stood_still_s:.1f} s."
    if found.numbers < WANTED_NUMBERS:
        return f"there {'is 1 accuracy' if found.numbers == 1 else f'are {found.numbers} accuracies'} in the end."
    if found.updates_behind > MOST_BEHIND:
        return f"an accuracy is known when the model has had {found.updates_behind} updates more than the weights that it is of."
    return None


class WrongReturn(Exception):
    """A student's function has returned something else than logs and state."""


class CountedModel(keras.Sequential):
    """A model whose test step ends in a function: of a tracker, its state, and which examples of a batch are right."""

    def __init__(self, layers: list[Any], counted: Callable[..., Any]) -> None:
        super().__init__(layers)
        self.tracker = keras.metrics.Mean(name="right")
        self.counted = counted

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def test_step(self, state: Any, data: Any) -> Any:
        trainable, others, metrics = state
        x, y = data
        scores, others = self.stateless_call(trainable, others, x, training=False)
        right = keras.ops.cast(keras.ops.equal(keras.ops.argmax(scores, -1), y), "float32")
        logs, metrics = logs_and_state(self.counted(self.tracker, metrics, right), len(metrics))
        return logs, (trainable, others, metrics)


def logs_and_state(returned: Any, size: int) -> tuple[Any, Any]:
    """What a student's function has returned, if it is a pair of logs and the state of the tracker."""
    if returned is ...:
        raise NotAnswered
    pair: Any = tuple(returned) if isinstance(returned, list) and returned and isinstance(returned[0], dict) else returned  # in brackets
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise WrongReturn(
            f"your function returned {described(returned)}; expected are two values: a dict of logs, and the tracker's state."
        )
    logs, state = pair
    if not isinstance(logs, dict) or set(logs) != {"right"}:
        raise WrongReturn(f"the first value that your function returned is {described(logs)}; expected is a dict with the key 'right'.")
    if not isinstance(state, (list, tuple)) or len(state) != size:
        raise WrongReturn(f"the second value that your function returned is {described(state)}; expected is the state of the tracker.")
    return logs, list(state)


def counted(function: Callable[..., Any]) -> str | None:
    """A function that ends a test step, so that workers share the evaluation."""

    def make() -> Any:
        model = CountedModel([keras.Input((64,)), keras.layers.Dense(10, kernel_initializer="zeros")], function)
        model.compile()
        return model

    cluster = make_cluster()
    model, _ = model_on(cluster, make)
    try:
        logs = model.evaluate(x_test, y_test, batch_size=BATCH, verbose=0, return_dict=True)
    except WrongReturn as error:
        return str(error)
    if logs["right"] == 0:
        return "the share came out as 0: Keras takes the result of the tracker of that name, and its state has counted nothing."
    return compared(float(logs["right"])) or wrong_log(function)


def wrong_log(function: Callable[..., Any]) -> str | None:
    """Whether what a batch logs is the tracker's result; of a whole evaluation Keras shows that itself, whatever was logged."""
    tracker = keras.metrics.Mean(name="right")
    state = [variable.value for variable in tracker.variables]
    for number, (batch, expected) in enumerate(LOGGED):
        logs, state = logs_and_state(function(tracker, state, keras.ops.convert_to_tensor(batch)), len(state))
        value = plain(logs["right"])
        if isinstance(value, (str, bool, list)) or value is None or not abs(value - expected) <= CLOSE:
            return (
                f"the share is right, because Keras takes it from the tracker's state. But after batch {number} the log is "
                f"{described(logs['right']).removeprefix('the number ')}, and the result of the tracker is {expected:g}."
            )
    return None


first_exercise = Exercise(
    "Complete evaluate_by_hand, which returns the share of all examples that are right.",
    a_function("of a coordinator, a step and a list of batches", by_hand),
    hints=(
        "schedule gives a promise for each batch; fetch of a list of promises gives the list of their values. Divide at the end, once.",
        "coordinator.schedule(count, batch) for each batch, then sum(coordinator.fetch(values)), divided by the sum of all len(labels).",
    ),
    why="Each promise has one value, whichever worker made it and however often: the batch is a part of the closure, and the sum is made "
    "where nobody can add to it twice.",
)

second_exercise = Exercise(
    "Give a dict with 'way' ('chief', 'workers' or 'evaluator') and 'every' (how many epochs).",
    chosen,
    hints=(
        "Which ways are too slow in every row of the table, and which one gives numbers that are too old?",
        "An evaluator is always behind here, because it needs 19 s. With the workers an evaluation costs 5 s: how many fit in?",
    ),
    why="Three evaluations by the workers cost 15 s, and their numbers are those of the present weights.",
)

third_exercise = Exercise(
    "Complete counted, which returns the logs of a batch and the next state of the tracker.",
    a_function("of a tracker, its state and the right examples of a batch", counted),
    hints=(
        "A tracker changes nothing by itself here: tracker.stateless_update_state(metrics, right) returns its next state.",
        "The log has to be the result of the tracker: tracker.stateless_result(metrics), with its next state.",
    ),
    why="The tracker counts the sum and the number of examples. Such counts can be made anywhere, in any order, and added up.",
)
