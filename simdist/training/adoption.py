"""Keras variables that belong to a strategy.

While a scope is open, Keras asks an object of ours for the layout of each new variable. That is the moment of adoption:
the variable gets our class, and its value is from then on one of our variables, placed by the strategy. Keras code that
reads and assigns it works as before: in a step it becomes an operation of the program, elsewhere it is looked at.

Keras' own ``fit`` takes variables apart and would train on one device without a word, so it is refused here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras.src.backend.common import global_state, stateless_scope

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program import tracing
from simdist.program.arrays import ArrayLike, DTypeLike, HostArray
from simdist.program.fixed_reads import traced_once
from simdist.program.saved_parts import SavedParts
from simdist.program.scope import Scope, add_library, chosen_scope, libraries, opened
from simdist.program.values import snapshot
from simdist.training import built_layers, made_in_steps, seeds
from simdist.training.first_weights import require_room
from simdist.training.saved_variables import saved_variables
from simdist.training.variable_roles import variable_roles
from simdist.variables.aggregation import is_sum_of_replicas
from simdist.variables.handles import Adopted
from simdist.variables.placement_record import PlacementRecord
from simdist.variables.variable import Variable

__all__ = ["AdoptedVariable", "KerasLibrary", "StepScope", "install", "noted_assignments"]

MODELS_OF_STRATEGIES = "Make the model with simdist.keras.Model or simdist.keras.Sequential, whose fit knows strategies."
"""What to do where Keras' own loop was called."""


WITHOUT_STRATEGY = " A function of plain Keras models, without a strategy, is no step: call it without @sd.function."
"""What to do where no strategy was chosen at all."""


class AdoptedVariable(keras.Variable, Adopted):
    """A Keras variable whose value is `simdist_variable`."""

    simdist_scope: Scope

    @property
    def _value(self) -> jax.Array | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        own = self.simdist_variable
        if own is None:
            return None
        # While Keras builds a model, or computes it with other values, its trace keeps nothing of what variables are.
        with traced_once() if stateless_scope.in_stateless_scope() else nullcontext():
            return jnp.asarray(own.placement.store.observe(own))

    @_value.setter
    def _value(self, value: ArrayLike | None) -> None:
        if value is None:
            raise FailedPreconditionError(
                f"Keras' own training loop reached for the variable {self.path!r}, which belongs to a strategy, and would train it on one "
                f"device. {MODELS_OF_STRATEGIES}"
            )
        own = self.simdist_variable
        if own is not None:
            own.placement.store.update("assign", [own], [jnp.asarray(snapshot(value), own.dtype)])
        else:
            self._adopt(value)

    def _adopt(self, value: ArrayLike) -> None:
        synchronization, aggregation = variable_roles(self, np.issubdtype(np.asarray(value).dtype, np.floating))
        with opened(self.simdist_scope):
            own = Variable(
                jnp.asarray(snapshot(value)),
                name=self.path,
                trainable=self._trainable,
                synchronization=synchronization,
                aggregation=aggregation,
            )
        own.keras_variable = self
        self.simdist_variable = own

    @property
    def value(self) -> jax.Array:
        scope = stateless_scope.get_stateless_scope()
        if scope is not None and not isinstance(scope, StepScope):
            value = scope.get_current_value(self)
            if value is not None:
                return self._maybe_autocast(value)
        own = self.simdist_variable
        tracer = tracing.active_tracer()
        if own is None:
            return super().value
        if tracer is None:
            return self._maybe_autocast(self._value)  # read once: in a launched main, each read is an operation of all workers
        return self._maybe_autocast(tracer.random_key(own) if self.is_seed else own.traced_value(tracer))

    def autocast(self, value: jax.Array) -> jax.Array:
        """A value, or rows of it, with the dtype in which the layer that runs now computes."""
        return self._maybe_autocast(value)

    def numpy(self) -> HostArray:
        """The present value, as a numpy array."""
        return np.asarray(self.value)

    @property
    def device(self) -> str:
        """The task that holds the value (or tasks, with commas between them), as of `sd.Variable`; empty before there is a value."""
        return "" if self.simdist_variable is None else self.simdist_variable.device

    def placements(self) -> list[PlacementRecord]:
        """The placement of each piece, as of `sd.Variable`: the shards of a variable that was split, with their tasks."""
        return [] if self.simdist_variable is None else self.simdist_variable.placements()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        return np.array(self.value, dtype, copy=copy)

    def _convert_to_tensor(self, value: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
        """An array of JAX, as Keras makes it of what is assigned; no memory of the caller's, who may write to it again."""
        return super()._convert_to_tensor(snapshot(value), dtype)

    @property
    def is_seed(self) -> bool:
        """Whether it is the state of a generator of random numbers."""
        return self.name == "seed_generator_state"

    def assign(self, value: ArrayLike) -> jax.Array:
        """Replace the value; in a step, an operation of the program."""
        scope = stateless_scope.get_stateless_scope()
        tracer, own = tracing.active_tracer(), self.simdist_variable
        if own is None or tracer is None or (scope is not None and not isinstance(scope, StepScope)):
            return super().assign(value)
        tensor: jax.Array = self._convert_to_tensor(value, dtype=self._dtype)
        if tuple(tensor.shape) != tuple(self.shape):
            raise InvalidArgumentError(f"{self.path} has shape {self.shape}; a value of shape {tensor.shape} cannot be assigned to it.")
        added = tracer.added_to(own, value) if is_sum_of_replicas(own) else None
        if self.is_seed:
            tracer.set_random_key(own, tensor)
        elif added is not None and own.is_served:
            self.assign_add(added)  # what other workers have counted meanwhile stays
        else:
            if _noted and added is None:
                _noted[-1].append(self)
            tracer.update("assign", [own], [tensor])
        return tensor

    def __add__(self, other: ArrayLike) -> jax.Array:
        total: jax.Array = super().__add__(other)
        tracer, own = tracing.active_tracer(), self.simdist_variable
        if own is not None and tracer is not None:
            tracer.note_sum(own, total, other)
        return total

    def __radd__(self, other: ArrayLike) -> jax.Array:
        return self + other

    def assign_add(self, value: ArrayLike) -> jax.Array | None:
        """Add to the value, on the tasks that hold it."""
        scope = stateless_scope.get_stateless_scope()
        tracer, own = tracing.active_tracer(), self.simdist_variable
        if own is None or tracer is None or (scope is not None and not isinstance(scope, StepScope)):
            return super().assign_add(value)
        if tracer.num_replicas > 1 and not tracer.in_replica and is_sum_of_replicas(own) and not own.is_served:
            return self.assign(self + value)  # across the replicas it belongs to none of them: each gets a share of the new sum
        tracer.update("add", [own], [jnp.broadcast_to(jnp.asarray(value, own.dtype), own.shape)])
        return None

    def assign_sub(self, value: ArrayLike) -> jax.Array | None:
        """Subtract from the value, on the tasks that hold it."""
        return self.assign_add(-jnp.asarray(value))


_noted: list[list[AdoptedVariable]] = []


@contextmanager
def noted_assignments() -> Iterator[list[AdoptedVariable]]:
    """The variables to which a step that is traced inside assigns values, and does not add; one for each assignment."""
    found: list[AdoptedVariable] = []
    _noted.append(found)
    try:
        yield found
    finally:
        _noted.remove(found)


class StepScope(stateless_scope.StatelessScope):
    """Open while a step is traced: a variable that no strategy adopted would silently become a constant of the program.

    It keeps what layers add to the loss, for `model.losses`.
    """

    def __init__(self) -> None:
        super().__init__(collect_losses=True, initialize_variables=False)

    def get_current_value(self, variable: keras.Variable) -> jax.Array | None:
        if not isinstance(variable, AdoptedVariable):
            raise InvalidArgumentError(
                f"The step reads the Keras variable {variable.path!r}, which was made outside strategy.scope(). Make the model, the "
                "optimizer and the metrics inside `with strategy.scope():`. What makes variables of an object that exists needs it, too: "
                "call build, enable_lora, quantize, and what builds by itself (a first model(x), a first update_state) inside "
                f"`with strategy.scope():`.{'' if chosen_scope() else WITHOUT_STRATEGY}"
            )
        # Keras asks the scope itself for what a regularizer is to be given.
        unmade = tracing.active_tracer() is None or variable.simdist_variable is None
        return None if unmade else variable.value

    def add_update(self, update: tuple[keras.Variable, ArrayLike]) -> None:
        self.get_current_value(update[0])


class _Adoption:
    """A Keras distribution that adopts: Keras asks it for the layout of each new variable."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def get_variable_layout(self, variable: keras.Variable) -> None:
        if not isinstance(variable, AdoptedVariable):
            require_room(variable.path, tuple(variable.shape), variable.dtype)
            _adopted_class(variable).simdist_scope = self.scope

    def get_tensor_layout(self, path: str) -> None:
        return None

    def get_data_layout(self, shape: tuple[int, ...]) -> None:
        raise FailedPreconditionError(
            f"Keras' own fit, evaluate or predict was called in strategy.scope() with data of shape {tuple(shape)}, and would run on one "
            f"device. {MODELS_OF_STRATEGIES}"
        )


class KerasLibrary:
    """Keras, as a `Library`: its variables belong to the scope in which they are made."""

    def __init__(self) -> None:
        # How often each automatic name was used in each scope.
        self._names: WeakKeyDictionary[Scope, defaultdict[str, int]] = WeakKeyDictionary()

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[None]:
        """Adopt variables, and count automatic names (dense, dense_1) for each scope anew: a second run has the names of the first."""
        names = self._names.setdefault(scope, defaultdict(int))
        mine = {"distribution": _Adoption(scope), "object_name_uids": names}
        before = {name: global_state.get_global_attribute(name) for name in mine}
        for name, value in mine.items():
            global_state.set_global_attribute(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                global_state.set_global_attribute(name, value)

    def guard(self) -> StepScope:
        """Refuse variables of Keras that no scope has adopted."""
        return StepScope()

    def saved_parts(self, holder: object) -> SavedParts | None:
        """The variables of a model, a layer, an optimizer or a metric, by their paths in it."""
        return saved_variables(holder)

    def adopt(self, holder: object, variable: Variable) -> bool:
        """Let a Keras variable that was made outside of every scope, an optimizer's, be one of ours from now on."""
        if not isinstance(holder, keras.Variable):
            return False
        adopted = _adopted_class(holder)
        variable.keras_variable = adopted
        adopted.simdist_variable = variable
        return True


def _adopted_class(variable: object) -> AdoptedVariable:
    """A Keras variable, with our class and without its value."""
    vars(variable).pop("_value", None)
    variable.__class__ = AdoptedVariable
    assert isinstance(variable, AdoptedVariable)
    return variable


def install() -> None:
    """Let scopes adopt Keras variables, steps refuse foreign ones, and tasks draw their own seeds. Done once."""
    if any(isinstance(library, KerasLibrary) for library in libraries):
        return
    built_layers.install()
    seeds.install()
    made_in_steps.install()
    add_library(KerasLibrary())
