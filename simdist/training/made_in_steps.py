"""Variables that a step would make while it is traced: refused before they exist, so that the model can still be built afterwards.

TensorFlow lifts such variables out of the first trace of a function. Here a step is given its variables before it is traced:
``model.trainable_variables`` of a model that is not built is an empty list, and nothing would be trained.

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
            f"The step would make the Keras variable {variable.path!r}: its model, layer, metric or optimizer was not built before. Make "
            "it inside `with strategy.scope():`, before the step; and build a model there: give it keras.Input(shape) as its first layer, "
            "or call model.build((None, *shape)), or the model itself with an example. A metric that has no variables before its first "
            "update (F1Score) is given one there, and reset_state()."
        )
    original(variable)


def install() -> None:
    """Let steps refuse variables of Keras that they would make."""
    variables.register_uninitialized_variable = _register
