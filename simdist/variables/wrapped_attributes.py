"""The attributes of an optimizer that `sd.Optimizer` wraps: its learning rate is that of the wrapper, too; others are refused.

Python would take any attribute that is set on the wrapper, and no step would read it: a warm-up would change nothing, without a word.

Taught in lesson 05.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from simdist.program.arrays import ArrayLike
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, KerasVariable, is_keras_optimizer

__all__ = ["WrappedAttributes"]

ATTRIBUTES = ("wrapped", "lazy_rows", "learning_rate")
GRADIENTS = "sd.value_and_grad(loss, variables), then apply_gradients"
# Names of optimizers in Keras 2, in which most programs for tf.distribute were written.
INSTEAD = {
    "_aggregate_gradients": "apply_gradients, which adds up the gradients of the replicas",
    "compute_gradients": GRADIENTS,
    "get_gradients": GRADIENTS,
    "get_scaled_loss": "optimizer.wrapped.scale_loss(loss)",
    "get_unscaled_gradients": "apply_gradients, which takes the scale of the loss off",
    "get_weights": "an sd.Checkpoint(optimizer=optimizer)",
    "lr": "optimizer.learning_rate",
    "minimize": GRADIENTS,
    "set_weights": "an sd.Checkpoint(optimizer=optimizer)",
}


class WrappedAttributes:
    """An object that has the attributes `ATTRIBUTES`, and none that a step would not read.

    Attributes:
        wrapped: a Keras optimizer, or an Optax transformation.
    """

    wrapped: KerasOptimizer | GradientTransformation

    def __copy__(self) -> NoReturn:
        """Refuse a copy that would change the same slots, and count in the same counter.

        Raises:
            TypeError: always.
        """
        raise TypeError("A shallow copy of an sd.Optimizer would share its slots. Make another one, or copy.deepcopy() one not yet built.")

    @property
    def learning_rate(self) -> KerasVariable | ArrayLike:
        """That of the Keras optimizer: read it, assign to it between steps, or set it to a number or a schedule.

        Raises:
            AttributeError: an Optax transformation has none that can be changed.

        Example:
            >>> import simdist as sd
            >>> from simdist import keras
            >>> with sd.MirroredStrategy(2).scope():
            ...     optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
            >>> optimizer.learning_rate = 0.5
            >>> float(optimizer.learning_rate)
            0.5
        """
        rate: KerasVariable | ArrayLike = self._with_rate().learning_rate
        return rate

    @learning_rate.setter
    def learning_rate(self, rate: ArrayLike | Callable[[Any], Any]) -> None:
        self._with_rate().learning_rate = rate

    def _with_rate(self) -> Any:
        if is_keras_optimizer(self.wrapped):
            return self.wrapped
        raise AttributeError(
            "The learning rate of an Optax transformation is a part of it. Give it a schedule when it is made, for example "
            "optax.sgd(optax.linear_schedule(0.0, 0.1, 100)); or wrap a Keras optimizer, whose rate can be changed between steps."
        )

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and name not in ATTRIBUTES:
            raise AttributeError(f"No step would read the attribute {name!r} of an sd.Optimizer.{self._instead(name)}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "learning_rate":  # the property has raised an AttributeError, which Python hides
            self._with_rate()
        raise AttributeError(f"sd.Optimizer has no attribute {name!r}.{self._instead(name)}")

    def _instead(self, name: str) -> str:
        if name in INSTEAD:
            return f" Write instead: {INSTEAD[name]}"
        wrapped = vars(self).get("wrapped")
        if not hasattr(wrapped, name):
            return ""
        return f" That of what it wraps is optimizer.wrapped.{name}; steps that were traced before keep what it was then."
