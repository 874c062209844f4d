"""Slots of variables that share a path go to their own variables, whatever an optimizer of one's own keeps them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

# What the optimizer keeps of the slots of two kinds, of which it has one for each variable.
KEPT: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "lists": lambda slow, fast: {"slow": slow, "fast": fast},
    "a list of pairs": lambda slow, fast: {"slots": list(zip(slow, fast, strict=True))},
    "a tuple of pairs": lambda slow, fast: {"slots": tuple(zip(slow, fast, strict=True))},
    "two tuples": lambda slow, fast: {"slots": (tuple(slow), tuple(fast))},
    "a dict of tuples": lambda slow, fast: {"slots": {"slow": tuple(slow), "fast": tuple(fast)}},
    "pairs by number": lambda slow, fast: {"slots": dict(enumerate(zip(slow, fast, strict=True)))},
}


class Own(keras.optimizers.Optimizer):
    """Slow momentum, and the sum of squares."""

    def __init__(self, kept: str) -> None:
        super().__init__(0.1)
        self.kept = kept

    def get_config(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def build(self, variables: Any) -> None:
        if not self.built:
            super().build(variables)
            slow, fast = ([self.add_variable_from_reference(one, kind) for one in variables] for kind in ("slow", "fast"))
            self.of = lambda number: (slow[number], fast[number])
            for name, value in KEPT[self.kept](slow, fast).items():
                setattr(self, name, value)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        slow, fast = self.of(self._get_variable_index(variable))
        self.assign(slow, 0.5 * slow + gradient)
        self.assign(fast, 0.9 * fast + gradient * gradient)
        self.assign_sub(variable, learning_rate * slow / (1.0 + fast))


class Training:
    """Variables of one name, which are trained in this order."""

    def __init__(self, kept: str, order: str) -> None:
        strategy: Any = sd.OneDeviceStrategy()
        with strategy.scope():
            self.variables: dict[str, Any] = {
                name: sd.Variable(np.full(3, 1.0 + number, np.float32), name="w") for number, name in enumerate(sorted(order))
            }
            self.optimizer = sd.Optimizer(Own(kept))
        self.checkpoint = sd.Checkpoint(variables=self.variables, optimizer=self.optimizer)
        trained = [self.variables[name] for name in order]
        self.optimizer.build(trained)

        @sd.function
        def step() -> None:
            strategy.run(lambda: self.optimizer.apply_gradients([(2.0 * one.value, one) for one in trained]))

        self.step = step

    def after(self, steps: int) -> dict[str, list[float]]:
        for _ in range(steps):
            self.step()
        return {name: one.numpy().tolist() for name, one in self.variables.items()}


@pytest.mark.sample
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize(("was", "is_now"), [("abc", "cab"), ("ab", "ba"), ("abc", "ca"), ("a", "a")])
def test_slots_of_variables_with_one_path_go_to_their_own(kept: str, was: str, is_now: str, tmp_path: Path) -> None:
    saved, restored = Training(kept, was), Training(kept, is_now)
    saved.after(3)
    path = saved.checkpoint.save(tmp_path / "ckpt")
    restored.checkpoint.restore(path).expect_partial()
    expected = saved.after(2)
    assert restored.after(2) == {name: pytest.approx(expected[name]) for name in sorted(is_now)}
