"""Variables that a step would make while it is traced: refused before they exist, so that the model can still be built afterwards.

A model or a metric that the step is only the first to call is built before it (`first_builds`). What is left is what the step makes
itself: each trace would make another one, and what one of them has learned would be lost. TensorFlow refuses it in its second trace.

Invariant: a step that is refused leaves layers as they were; a layer with variables of no value could never be built again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        raise _made_by_step(variable.path)
    original(variable)


def _init(self: keras.Variable, initializer: Any, *args: Any, **options: Any) -> None:
    """A variable of Keras begins; one that has its value at once, such as the count of an optimizer's steps, is not noted.

    Raises:
        InvalidArgumentError: a step is traced, and would make it.
    """
    has_value = not (callable(initializer) or isinstance(initializer, str))
    if has_value and tracing.active_tracer() is not None and variables.in_stateless_scope():
        raise _made_by_step("/".join(filter(None, (variables.current_path(), options.get("name")))) or "variable")
    _original_init(self, initializer, *args, **options)


def _made_by_step(path: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"The step would make the Keras variable {path!r}, in each of its traces another one. Make its model, layer, metric "
        "or optimizer inside `with strategy.scope():`, before the step. If it is made there, it could not be built before the step: "
        "give a model keras.Input(shape) as its first layer, or call model.build((None, *shape)), or the model itself with an "
        "example, in the scope; give a metric its first update there, and reset_state()."
    )


_original_init = variables.Variable.__init__


def install() -> None:
    """Let steps refuse variables of Keras that they would make."""
    variables.register_uninitialized_variable = _register
    variables.Variable.__init__ = _init  # pyright: ignore[reportAttributeAccessIssue]
