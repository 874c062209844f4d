"""Layers and metrics that a step is the first to call: they are built before the step, and it is traced once more.

A model without ``keras.Input`` gets its variables when it is called for the first time; in programs written for TensorFlow that is often
in the first training step. The trace ends there, the layer is built for the shapes that it was called with, in the scope of the
strategy, and the step is traced from its beginning: ``model.trainable_variables`` is then what it will be in each later step.

What a step makes itself is not built: it would be another layer in each trace.

Source: what Keras builds, when and for which shapes is read in Keras 3.15 (`Layer._maybe_build`; `_build` of the metrics named below).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakValueDictionary

import keras
from keras.src.backend.common import global_state, stateless_scope
from keras.src.layers.layer import Layer, might_have_unbuilt_state
from keras.src.ops.operation import Operation
from keras.src.utils.python_utils import is_default

from simdist.program import tracing
from simdist.program.scope import chosen_scope, opened
from simdist.program.traced_again import TracedAgain
from simdist.training.adoption import StepScope
from simdist.training.keras_state import global_attribute

__all__ = ["install"]

NAME_SCOPES = "name_scope_stack"
"""Where Keras keeps the scopes of names that are open."""
LATE_METRICS = (keras.metrics.AUC, keras.metrics.FBetaScore, keras.metrics.R2Score)
"""The metrics of Keras that may get their variables in their first update."""


_made_in_steps: WeakValueDictionary[int, object] = WeakValueDictionary()
"""Layers and metrics that steps have made, and layers that could not be built before their step; by identity, as a user's need no hash."""


def _maybe_build(self: Layer, call_spec: Any, original: Callable[[Layer, Any], None] = Layer._maybe_build) -> None:
    """A layer is called, perhaps for the first time.

    Raises:
        TracedAgain: it has to be built before the step.
    """
    scope = chosen_scope()
    if scope is None or not _is_built_before_its_step(self, call_spec):
        return original(self, call_spec)
    symbolic = copy.copy(call_spec)
    for name in ("arguments_dict", "tensor_arguments_dict", "user_arguments_dict", "first_arg"):
        setattr(symbolic, name, keras.tree.map_structure(_without_value, getattr(call_spec, name)))
    names = list(global_state.get_global_attribute(NAME_SCOPES) or ())

    def build() -> None:
        with opened(scope), global_attribute(NAME_SCOPES, names):
            original(self, symbolic)
        if not self.built:  # its call fails for arrays without values: a step of which it is a part cannot build it either
            _made_in_steps[id(self)] = self

    raise TracedAgain(build)


def _is_built_before_its_step(layer: Layer, call_spec: Any) -> bool:
    """Whether a layer may get variables now, by itself and not as a part of a model that is being built."""
    if layer.built or not _is_called_first_by_a_step(layer) or not call_spec.eager:
        return False
    return not is_default(layer.build) or might_have_unbuilt_state(layer)


def _is_called_first_by_a_step(called: object) -> bool:
    """Whether a step is traced that can be traced again, and has not made itself what it calls."""
    tracer = tracing.active_tracer()
    if tracer is None or not tracer.may_be_traced_again or id(called) in _made_in_steps:
        return False
    return isinstance(stateless_scope.get_stateless_scope(), StepScope)


def _without_value(argument: Any) -> Any:
    return keras.KerasTensor(argument.shape, argument.dtype) if keras.ops.is_tensor(argument) else argument


def _late_build(original: Callable[..., None]) -> Callable[..., None]:
    """The method by which a metric makes its variables in its first update."""

    @wraps(original)
    def _build(self: keras.Metric, *shapes: object) -> None:
        scope = chosen_scope()
        if scope is None or not _is_called_first_by_a_step(self):
            return original(self, *shapes)

        def build() -> None:
            with opened(scope):
                original(self, *shapes)

        raise TracedAgain(build)

    return _build


def _noting(make: Callable[..., Any]) -> Callable[..., Any]:
    """A ``__new__`` that notes what steps make."""

    def __new__(cls: type[object], *args: object, **options: object) -> object:
        made = make(cls) if make is object.__new__ else make(cls, *args, **options)
        if tracing.active_tracer() is not None:
            _made_in_steps[id(made)] = made
        return made

    return __new__


def install() -> None:
    """Let steps build layers and metrics of Keras before they are traced. Done once."""
    for kind in (Operation, keras.Metric):
        kind.__new__ = _noting(kind.__new__)  # pyright: ignore[reportAttributeAccessIssue]
    Layer._maybe_build = _maybe_build
    for metric in LATE_METRICS:
        metric._build = _late_build(metric._build)
