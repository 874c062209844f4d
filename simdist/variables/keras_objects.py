"""Keras' objects as this package uses them, and what only their private attributes tell.

Keras carries no types, so each protocol lists what is used here of a variable, an optimizer or a transformation. The functions below
read, or write, what Keras keeps private: it has no public way to ask for it. Nothing else in this package does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

import jax

from simdist.program.arrays import ArrayLike, HostArray, Tree

__all__ = [
    "BOOKKEEPING",
    "Config",
    "GradientTransformation",
    "KerasOptimizer",
    "KerasVariable",
    "LearningRate",
    "LossScaleOptimizer",
    "clipped",
    "core_of",
    "counter_of",
    "decays",
    "exclude_the_same_names",
    "excludes_by_name",
    "exclusions_by_identity",
    "holds_optimizers",
    "is_built",
    "is_keras_optimizer",
    "is_scaling",
    "learning_rate_of",
    "overwrites",
    "rename",
    "set_schedule",
    "trained_variables",
    "unbuilt_by_keras",
    "without_clipping",
]


class KerasVariable(Protocol):
    """A variable of Keras."""

    name: str
    path: str
    dtype: str
    _path: str
    constraint: Callable[[jax.Array], jax.Array] | None
    overwrite_with_gradient: bool

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def value(self) -> jax.Array: ...
    def numpy(self) -> HostArray: ...
    def assign(self, value: ArrayLike, /) -> object: ...
    def __jax_array__(self) -> jax.Array: ...


Config: TypeAlias = dict[str, Any]
"""What an optimizer was made with: its arguments by their names, as Keras writes them down."""

LearningRate: TypeAlias = KerasVariable | Callable[..., ArrayLike]
"""A variable; or a schedule, a function of the count of steps."""


class KerasOptimizer(Protocol):
    """An optimizer of Keras.

    Attributes:
        _iterations: counts each call, also where gradients are accumulated and `iterations` counts the updates.
        _learning_rate: the schedule itself, where `learning_rate` is its present value.
    """

    name: str
    built: bool
    _iterations: KerasVariable
    _learning_rate: LearningRate
    _trainable_variables: Sequence[KerasVariable]
    loss_scale_factor: float | None
    gradient_accumulation_steps: int | None
    weight_decay: float | None
    clipnorm: float | None
    global_clipnorm: float | None
    use_ema: bool
    ema_overwrite_frequency: int | None

    @property
    def variables(self) -> Sequence[KerasVariable]: ...
    @property
    def iterations(self) -> KerasVariable: ...
    def build(self, variables: Sequence[KerasVariable], /) -> None: ...
    def scale_loss(self, loss: jax.Array, /) -> jax.Array: ...
    def get_config(self) -> Config: ...
    @classmethod
    def from_config(cls, config: Config, /) -> Self: ...
    def exclude_from_weight_decay(self, *, var_list: Sequence[KerasVariable]) -> None: ...
    def stateless_apply(
        self, optimizer_variables: list[jax.Array], grads: list[jax.Array | None], trainable_variables: list[jax.Array], /
    ) -> tuple[list[jax.Array], list[jax.Array]]: ...
    def _clip_gradients(self, grads: list[jax.Array], /) -> Iterable[jax.Array]: ...
    def _use_weight_decay(self, variable: KerasVariable, /) -> bool: ...


class LossScaleOptimizer(KerasOptimizer, Protocol):
    """Keras' `LossScaleOptimizer`, which wraps another optimizer."""

    inner_optimizer: KerasOptimizer
    initial_scale: float
    dynamic_growth_steps: int
    dynamic_scale: KerasVariable
    step_counter: KerasVariable

    def __init__(self, inner_optimizer: KerasOptimizer, *, initial_scale: float, dynamic_growth_steps: int) -> None: ...


@runtime_checkable
class GradientTransformation(Protocol):
    """A transformation of Optax."""

    @property
    def init(self) -> Callable[..., Tree]: ...
    @property
    def update(self) -> Callable[..., tuple[Tree, Tree]]: ...


def is_keras_optimizer(optimizer: object) -> TypeGuard[KerasOptimizer]:
    """Whether it is an optimizer of Keras."""
    return hasattr(optimizer, "update_step")


def holds_optimizers(optimizer: KerasOptimizer) -> bool:
    """Whether it is a Keras `MultiOptimizer`, which has an optimizer for each of several sets of variables."""
    return isinstance(getattr(optimizer, "optimizers", None), list)


def is_scaling(optimizer: object) -> TypeGuard[LossScaleOptimizer]:
    """Whether it is a Keras `LossScaleOptimizer`, which wraps another one."""
    return hasattr(optimizer, "inner_optimizer") and hasattr(optimizer, "dynamic_growth_steps")


def core_of(optimizer: KerasOptimizer) -> KerasOptimizer:
    """The optimizer that changes the variables: the one inside of a `LossScaleOptimizer`, or the optimizer itself."""
    return optimizer.inner_optimizer if is_scaling(optimizer) else optimizer


def overwrites(variable: KerasVariable) -> bool:
    """Whether optimizers assign the gradient of a variable to it, as its new value."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


# -- what is private to Keras -----------------------------------------------------------------------------------------

BOOKKEEPING = frozenset((
    "_clip_gradients",
    "_exclude_from_weight_decay",
    "_exclude_from_weight_decay_cache",
    "_exclude_from_weight_decay_pattern",
    "_iterations",
    "_learning_rate",
    "_lock",
    "_tracker",
    "_trainable_variables",
    "_trainable_variables_indices",
    "_variables",
    "built",
    "loss_scale_factor",
    "name",
))  # fmt: skip
"""Attributes in which an optimizer keeps its variables and their names; and its loss scale, which is taken off before the update."""

LEFT_UNBUILT = "_simdist_left_unbuilt"


def counter_of(optimizer: KerasOptimizer) -> KerasVariable:
    """The variable in which an optimizer counts its steps."""
    return optimizer._iterations


def learning_rate_of(optimizer: KerasOptimizer) -> LearningRate:
    """The learning rate of an optimizer: a variable, or a schedule."""
    return optimizer._learning_rate


def set_schedule(optimizer: KerasOptimizer, schedule: LearningRate) -> None:
    """Let an optimizer follow this very schedule; a copy would have to know how to make one of its configuration."""
    optimizer._learning_rate = schedule


@contextmanager
def unbuilt_by_keras(optimizer: KerasOptimizer) -> Iterator[None]:
    """Let Keras take an optimizer for built, so that it makes no slots; `is_built` tells whether it is."""
    if optimizer.built:
        yield
        return
    vars(optimizer)[LEFT_UNBUILT] = optimizer.built = True
    try:
        yield
    finally:
        del vars(optimizer)[LEFT_UNBUILT]
        optimizer.built = False


def is_built(optimizer: KerasOptimizer) -> bool:
    """Whether an optimizer has all of its variables."""
    return optimizer.built and LEFT_UNBUILT not in vars(optimizer)


def trained_variables(optimizer: KerasOptimizer) -> Sequence[KerasVariable]:
    """The variables that an optimizer was built for."""
    return optimizer._trainable_variables


def clipped(optimizer: KerasOptimizer, gradients: list[jax.Array]) -> list[jax.Array]:
    """Gradients, clipped as an optimizer was asked to."""
    return list(optimizer._clip_gradients(gradients))


def without_clipping(optimizer: KerasOptimizer) -> None:
    """Let an optimizer clip nothing: its gradients are clipped before they reach it."""
    vars(optimizer)["_clip_gradients"] = list


def decays(optimizer: KerasOptimizer, variable: KerasVariable) -> bool:
    """Whether an optimizer lets the weights of a variable decay."""
    return optimizer._use_weight_decay(variable)


def excludes_by_name(optimizer: KerasOptimizer, path: str) -> bool:
    """Whether an optimizer leaves variables of such a name out of weight decay."""
    pattern: re.Pattern[str] | None = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern is not None and pattern.search(path) is not None


def exclusions_by_identity(optimizer: KerasOptimizer) -> bool:
    """Whether an optimizer leaves certain variables out of weight decay, which it knows as objects."""
    return bool(getattr(optimizer, "_exclude_from_weight_decay", None))


def exclude_the_same_names(optimizer: KerasOptimizer, other: KerasOptimizer) -> None:
    """Let an optimizer leave variables of the same names out of weight decay as another one: its configuration does not tell."""
    vars(optimizer)["_exclude_from_weight_decay_pattern"] = getattr(other, "_exclude_from_weight_decay_pattern", None)


def rename(variable: KerasVariable, path: str) -> None:
    """Give a variable a path of its own: what is left out of weight decay is found by it."""
    variable._path = path
