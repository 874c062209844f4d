"""An optimizer that is built after its restore, and refused then, is as it was before the restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError


class Training:
    """Variables with these names and sizes, and an Adam that trains them."""

    def __init__(self, strategy: Any, **sizes: int) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.variables: list[Any] = [sd.Variable(np.ones(size, np.float32), name=name) for name, size in sizes.items()]
            self.wrapped = keras.optimizers.Adam(0.1)
            self.optimizer = sd.Optimizer(self.wrapped)

        @sd.function
        def step() -> None:
            def replica() -> None:
                gradients = [2.0 * variable.value for variable in self.variables]
                self.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))

            strategy.run(replica)

        self.step = step

    @property
    def state(self) -> tuple[int, list[list[float]]]:
        return int(np.asarray(self.wrapped.iterations)), [variable.numpy().tolist() for variable in self.variables]


def saved(path: Path) -> str:
    training = Training(sd.MirroredStrategy(2), a=3, b=3)
    for _ in range(3):
        training.step()
    return sd.Checkpoint(optimizer=training.optimizer).save(str(path / "ckpt"))


OTHERS = [{"x": 3, "y": 3}, {"a": 3, "b": 4}]


@pytest.mark.parametrize("sizes", OTHERS)
def test_an_optimizer_that_does_not_fit_when_it_is_built_has_nothing_of_the_checkpoint(sizes: dict[str, int], tmp_path: Path) -> None:
    path = saved(tmp_path)
    training, fresh = (Training(sd.MirroredStrategy(2), **sizes) for _ in range(2))
    sd.Checkpoint(optimizer=training.optimizer).restore(path).expect_partial()
    assert training.state[0] == 3, "what is known of it is there at once"
    with pytest.raises(InvalidArgumentError, match=r"whose is whose is not known|is of another model"):
        training.step()
    assert training.state == fresh.state
    for _ in range(2):
        training.step()
        fresh.step()
    assert training.state == fresh.state


def test_one_that_fits_keeps_what_it_has_where_another_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    strategy = sd.MirroredStrategy(2)
    right, wrong = Training(strategy, a=3, b=3), Training(strategy, x=3, y=3)
    sd.Checkpoint(optimizer=right.optimizer).restore(path).expect_partial()
    sd.Checkpoint(optimizer=wrong.optimizer).restore(path).expect_partial()
    right.step()
    with pytest.raises(InvalidArgumentError):
        wrong.step()
    assert right.state[0] == 4
    assert wrong.state[0] == 0


def test_a_loss_scale_is_restored_into_a_model_that_fit_builds(tmp_path: Path) -> None:
    """While `fit` builds the model, Keras takes the optimizer for built; its variables have other numbers by then than in the end."""

    def model() -> keras.Model:
        with sd.MirroredStrategy(2).scope():
            made = keras.Sequential([keras.layers.Dense(3, kernel_initializer="ones"), keras.layers.Dense(1, kernel_initializer="ones")])
            adam = keras.optimizers.Adam(0.02)
            made.compile(keras.optimizers.LossScaleOptimizer(adam, initial_scale=4.0, dynamic_growth_steps=3), "mse")
        return made

    def train(trained: keras.Model, steps: int) -> None:
        trained.fit(np.ones((4 * steps, 2)), np.ones((4 * steps, 1)), batch_size=4, shuffle=False, verbose=0)

    first, second = model(), model()
    train(first, 5)
    status = sd.Checkpoint(model=second).restore(sd.Checkpoint(model=first).save(tmp_path / "ckpt"))
    train(first, 2)
    train(second, 2)
    status.assert_consumed()
    for expected, found in zip(first.optimizer.variables, second.optimizer.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), err_msg=found.path)
    for expected, found in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)
