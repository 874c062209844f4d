"""What a Keras optimizer is besides its variables: its plain attributes, which its copies get, and by which a change of it is seen.

`get_config` may leave some of them out: Keras asks it only when a model is saved. So a copy gets all that its optimizer holds: numbers,
texts, arrays, functions, schedules. It does not get what holds variables, as it has its own, nor what `build` has put there.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import jax
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.variables.keras_objects import BOOKKEEPING, KerasOptimizer, core_of, is_keras_optimizer, learning_rate_of

__all__ = ["Fingerprint", "another_of", "carry_attributes", "fingerprint_of", "require_all_carried"]

Attributes = Mapping[str, object]
Fingerprint = Mapping[str, Hashable]

BEFORE_THE_UPDATE = ("clipnorm", "clipvalue", "global_clipnorm", "loss_scale_factor")
PLAIN = (types.NoneType, bool, int, float, complex, str, bytes)
# How far into objects it is asked whether they hold variables.
DEPTH = 3


@dataclass(frozen=True, eq=False)
class _Same:
    """An object that equals itself alone; it is kept, so that its identity is not used again."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def another_of(optimizer: KerasOptimizer) -> KerasOptimizer:
    """A new optimizer of the same configuration, with any learning rate.

    Raises:
        InvalidArgumentError: its class cannot make one.
    """
    import keras

    rate = learning_rate_of(optimizer)
    # A look at the rate would compute what it depends on; with numerics="off" it is no number at all. (Keras would track what is set.)
    vars(optimizer)["_learning_rate"] = keras.Variable(0.001)
    try:
        with warnings.catch_warnings():
            # Keras converts its own learning rate to numpy in a way that numpy 2 warns of.
            warnings.simplefilter("ignore", DeprecationWarning)
            config = optimizer.get_config()
    finally:
        vars(optimizer)["_learning_rate"] = rate
    # What belongs to whole gradients is done before they are cut (`simdist.variables.optimizer`).
    config.update({name: None for name in BEFORE_THE_UPDATE if name in config})
    config.pop("name", None)
    try:
        return type(optimizer).from_config(config)
    except Exception as error:  # of the user's class
        raise InvalidArgumentError(
            f"{type(optimizer).__name__} cannot be copied for the tasks that hold variables: its from_config(get_config()) raises "
            f"{type(error).__name__}: {error} Let its get_config return the arguments that its constructor takes, by their names."
        ) from error


def fingerprint_of(optimizer: KerasOptimizer) -> Fingerprint:
    """What tells whether an optimizer was changed: its plain attributes, and its schedule if it has one."""
    import keras

    core = core_of(optimizer)
    rate = learning_rate_of(core)
    attributes = _plain(core) if core is optimizer else {**_plain(optimizer), **_plain(core)}
    schedule = None if isinstance(rate, keras.Variable) else _Same(rate)
    return {**{name: _frozen(value) for name, value in attributes.items()}, "learning_rate": schedule}


def carry_attributes(optimizer: KerasOptimizer, copy: KerasOptimizer, built: Callable[[], KerasOptimizer]) -> None:
    """Give a copy the plain attributes in which it differs from its optimizer.

    Args:
        optimizer: the user's.
        copy: not built yet.
        built: makes another copy and builds it: what it puts into attributes belongs to its variables. Only called if something differs.
    """
    given = _plain(optimizer)
    before = {name: _frozen(value) for name, value in vars(copy).items()}
    differing = {name: value for name, value in given.items() if before.get(name) != _frozen(value)}
    if differing and optimizer.built:
        after = vars(built())
        differing = {name: value for name, value in differing.items() if name not in after or _frozen(after[name]) == before.get(name)}
    for name, value in differing.items():
        if isinstance(value, types.MethodType) and value.__self__ is optimizer:
            vars(copy)[name] = types.MethodType(value.__func__, copy)
        elif name not in before or not _closes_over(value, optimizer):
            vars(copy)[name] = value


def require_all_carried(optimizer: KerasOptimizer, copy: KerasOptimizer) -> None:
    """Refuse an optimizer that holds variables which its copies cannot have.

    Raises:
        InvalidArgumentError: neither the constructor nor `build` creates them.
    """
    missing = sorted(set(vars(optimizer)) - set(vars(copy)) - BOOKKEEPING)
    missing = [name for name in missing if not name.startswith("_simdist")]
    if optimizer.built and missing:
        raise InvalidArgumentError(
            f"{type(optimizer).__name__} holds variables in {', '.join(missing)}, which were put there from outside. Each task that "
            "holds variables has a copy of the optimizer, with variables of its own: create them in its constructor or its build(), by "
            "add_variable."
        )


def _plain(optimizer: KerasOptimizer) -> Attributes:
    return {
        name: value
        for name, value in vars(optimizer).items()
        if name not in BOOKKEEPING and not name.startswith("_simdist") and not _holds_variables(value, DEPTH)
    }


def _holds_variables(value: object, depth: int) -> bool:
    import keras

    if isinstance(value, PLAIN) or (callable(value) and isinstance(value, (type, types.FunctionType, types.MethodType))):
        return False
    if isinstance(value, keras.Variable) or is_keras_optimizer(value):
        return True
    if depth == 0:
        return False
    inner: list[object] = []
    if isinstance(value, Mapping):
        inner += [*value.keys(), *value.values()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner += value  # pyright: ignore[reportUnknownArgumentType]
    else:
        inner += getattr(value, "__dict__", {}).values()
    return any(_holds_variables(item, depth - 1) for item in inner)


def _closes_over(value: object, optimizer: KerasOptimizer) -> bool:
    """Whether it is a function in which the optimizer stands: a copy that has such a one has itself in it."""
    return isinstance(value, types.FunctionType) and any(cell.cell_contents is optimizer for cell in value.__closure__ or ())


def _frozen(value: object) -> Hashable:
    if isinstance(value, PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return array.shape, array.dtype.str, array.tobytes()
    if isinstance(value, (list, tuple)):
        items: list[object] = [*value]  # pyright: ignore[reportUnknownArgumentType]
        return tuple([_frozen(item) for item in items])
    if isinstance(value, (set, frozenset)):
        members: list[object] = [*value]  # pyright: ignore[reportUnknownArgumentType]
        return frozenset([_frozen(item) for item in members])
    if isinstance(value, Mapping):
        pairs: list[tuple[object, object]] = [*value.items()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        return tuple([(_frozen(key), _frozen(item)) for key, item in pairs])
    if isinstance(value, types.MethodType):
        return _Same(value.__func__)
    return _Same(value)
