"""Variables of Keras that a model_fn makes: created when it is called for the first time, and the same again each time afterwards.

A model_fn makes layers, metrics and an optimizer whenever it is called, and it is called in every trace of a step. Keras lets nothing
make variables there. So while `CreatedVariables.open` is entered, Keras' constructor goes through here: the first call creates
variables, with their initial values, in the scope of the strategy; in a later one, the variable that is made in the same place has its
value in the one that was created then.

Invariant: every call makes the same variables in the same order; a call that does not is an error that names the first difference.

Source: Bradbury et al., JAX, and Hennigan et al., Haiku, 2020, whose `transform` keeps the parameters of a function in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.backend.common.variables import Variable as KerasBaseVariable
from keras.src.utils import rng_utils

from simdist.errors import InvalidArgumentError
from simdist.process_state import TaskLocal, active_context
from simdist.program.tracing import active_tracer
from simdist.randomness import derive_seed
from simdist.training.adoption import AdoptedVariable
from simdist.training.keras_state import global_attribute

__all__ = ["CreatedVariables", "install"]


class CreatedVariables:
    """The variables that the calls of one function make.

    Args:
        seed: of the initial values.

    Attributes:
        all: as they were created, in order; Keras' variables, which a strategy has adopted.
        of_layers: those of them that no metric and no optimizer of Keras has made, which model_fn may make in every mode.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.all: list[AdoptedVariable] = []
        self.of_layers: list[AdoptedVariable] = []
        self._is_complete = False
        self._number = 0
        self._seeds_drawn = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, one call of the function.

        Raises:
            InvalidArgumentError: it made fewer variables than the first call; or others.
        """
        context, tracer = active_context(), active_tracer()
        if tracer is not None:
            tracer.may_be_traced_again = False  # what is built before the step would be none of the variables of the function
        # dense, dense_1: counted for each call anew; and each call draws the same seeds, whatever seed Keras was given outside
        own = {"object_name_uids": defaultdict[str, int](int), rng_utils.GLOBAL_RANDOM_SEED: None}
        kept = {name: global_state.get_global_attribute(name) for name in own}
        before = context.seeds, _open.get()
        context.seeds = self._next_seed
        for name, value in own.items():
            global_state.set_global_attribute(name, value)
        _open.set(self)
        self._number = self._seeds_drawn = 0
        try:
            yield
        finally:
            context.seeds = before[0]
            for name, value in kept.items():
                global_state.set_global_attribute(name, value)
            _open.set(before[1])
        if self._is_complete and self._number < len(self.all):
            raise _others("nothing", repr(self.all[self._number].path))
        self._is_complete = True

    def _next_seed(self, drawing: str | None = None) -> int:
        del drawing  # all mains draw alike
        self._seeds_drawn += 1
        return 1 + derive_seed(self.seed, "model_fn", self._seeds_drawn) % 1_000_000_000

    def make(self, variable: keras.Variable, construct: Callable[..., None], initializer: Any, *args: Any, **options: Any) -> None:
        """Construct a variable: a new one in the first call, else the one that was created in its place."""
        if not self._is_complete:
            with _outside_of_steps(), jax.ensure_compile_time_eval():
                construct(variable, initializer, *args, **options)
            assert isinstance(variable, AdoptedVariable)
            self.all.append(variable)
            if not _is_made_by(keras.Metric, keras.optimizers.Optimizer):
                self.of_layers.append(variable)
            return
        if self._number >= len(self.all):
            raise _others(str(options.get("name", "a variable")), "nothing")
        self._number += 1
        with _outside_of_steps(), _adopted_by(self), jax.ensure_compile_time_eval():
            construct(variable, _nothing if callable(initializer) or isinstance(initializer, str) else initializer, *args, **options)
        assert isinstance(variable, _MadeAgain)
        variable.first_value = None
        self._require_same(variable)

    def get_variable_layout(self, variable: keras.Variable) -> None:
        """Keras asks for the layout of a variable that is made again: the moment in which it becomes the one that was created."""
        if isinstance(variable, _MadeAgain):
            return  # Keras asks twice
        variable.__dict__.pop("_value", None)
        variable.__class__ = _MadeAgain
        assert isinstance(variable, _MadeAgain)
        created = self.all[self._number - 1]
        variable.simdist_scope, variable.simdist_variable = created.simdist_scope, created.simdist_variable

    def get_tensor_layout(self, path: str) -> None:
        """Keras asks for the layouts of tensors, too; they have none."""

    def _require_same(self, variable: keras.Variable) -> None:
        created = self.all[self._number - 1]
        if tuple(created.shape) != tuple(variable.shape) or created.path != variable.path:
            raise _others(f"{variable.path!r} of shape {tuple(variable.shape)}", f"{created.path!r} of shape {tuple(created.shape)}")


class _MadeAgain(AdoptedVariable):
    """A variable of Keras that was made in the place of one that exists: its first value is known to Keras' constructor alone."""

    first_value: Any = None

    @property
    def _value(self) -> jax.Array | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return super()._value if self.first_value is None else self.first_value

    @_value.setter
    def _value(self, value: object) -> None:
        self.first_value = value


_open: TaskLocal[CreatedVariables | None] = TaskLocal(lambda: None)


def _is_made_by(*kinds: type) -> bool:
    """Whether one of the scopes of names that are open is of such an object: metrics and optimizers open one when they make a variable."""
    return any(isinstance(scope.caller, kinds) for scope in global_state.get_global_attribute("name_scope_stack") or ())


def _nothing(shape: tuple[int, ...], dtype: Any = None, **_: Any) -> np.ndarray[Any, Any]:
    """In the place of an initial value that nobody will see."""
    return np.zeros(shape, "float32" if dtype is None else dtype)


def _others(found: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"model_fn was called again, as for every new shape of batches, and made {found} where the first call had made {expected}. Each "
        "call must make all its layers, metrics and optimizers anew, the same in the same order, whatever the shapes."
    )


def _outside_of_steps() -> Any:
    """Keras makes variables with values only where no step is traced."""
    return global_attribute("stateless_scope", None)


def _adopted_by(created: CreatedVariables) -> Any:
    return global_attribute("distribution", created)


def install() -> None:
    """Let the constructor of Keras' variables ask whether a model_fn is called. Done once."""
    original: Callable[..., None] = KerasBaseVariable.__init__
    if original.__module__ == __name__:
        return

    def __init__(self: keras.Variable, initializer: Any, *args: Any, **options: Any) -> None:
        created = _open.get()
        if created is None:
            original(self, initializer, *args, **options)
        else:
            created.make(self, original, initializer, *args, **options)

    __init__.__doc__ = original.__doc__
    KerasBaseVariable.__init__ = __init__  # pyright: ignore[reportAttributeAccessIssue]
