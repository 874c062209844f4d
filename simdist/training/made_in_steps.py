"""Variables that a step would make while it is traced: refused before they exist, so that the model can still be built afterwards.

A model or a metric that the step is only the first to call is built before it (`first_builds`). What is left is what the step makes
itself: each trace would make another one, and what one of them has learned would be lost. TensorFlow refuses it in its second trace.

Invariant: a step that is refused leaves layers as they were; a layer with variables of no value could never be built again.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
from keras.src.backend.common import variables

from simdist.errors import InvalidArgumentError
from simdist.program import tracing

__all__ = ["install"]


def _register(variable: keras.Variable, original: Callable[[keras.Variable], None] = variables.register_uninitialized_variable) -> None:
    """Keras notes a variable that gets its value later.

    Raises:
        InvalidArgumentError: a step is traced, and would make it.
    """
    if tracing.active_tracer() is not None:
        raise InvalidArgumentError(
            f"The step would make the Keras variable {variable.path!r}, in each of its traces another one. Make its model, layer, metric "
            "or optimizer inside `with strategy.scope():`, before the step. If it is made there, it could not be built before the step: "
            "give a model keras.Input(shape) as its first layer, or call model.build((None, *shape)), or the model itself with an "
            "example, in the scope; give a metric its first update there, and reset_state()."
        )
    original(variable)


def install() -> None:
    """Let steps refuse variables of Keras that they would make."""
    variables.register_uninitialized_variable = _register
