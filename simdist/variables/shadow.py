"""An optimizer's state for the cells of one task, and the pure function that applies it.

A Keras optimizer is shadowed by one of the same configuration that is built on stand-ins of the cells; an Optax
transformation is initialised on their values. Either way the state is a flat list of cells that lie beside the
variables, and `apply` is pure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from simdist.errors import InvalidArgumentError
from simdist.program.values import aval_of
from simdist.simulation.task_context import TaskContext, active_context
from simdist.variables.state import Cell
from simdist.variables.variable import Placement, Variable

__all__ = ["Shadow", "keras_shadow", "optax_shadow"]

CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")
BEFORE_THE_UPDATE = (*CLIPPING, "loss_scale_factor")


@dataclass
class Shadow:
    """State cells of one task, their first values, and what applies gradients.

    Attributes:
        apply: (values, state, gradients) -> (new values, new state), all flat sequences; a Keras optimizer leaves alone what has a
            gradient of None.
        publish: called when the cells are stored; says whether this is the first task.
    """

    cells: list[Cell]
    initial: list[Any]
    apply: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
    publish: Callable[[bool], None]
    published: list[Variable] = field(default_factory=list[Variable])
    iterations: Any = 0


def keras_shadow(optimizer: Any, cells: list[tuple[Any, Cell]]) -> Shadow:
    """Shadow a Keras optimizer for some cells.

    Args:
        optimizer: the user's.
        cells: (variable, cell) pairs of one task.
    """
    shadow = _apart(lambda: _built_copy(optimizer, cells))
    state = list(shadow.variables)
    own = [_own_value(optimizer, position) for position in range(len(optimizer.variables))]
    initial = [jnp.asarray(own[i] if i < len(own) and i < 2 else v.value) for i, v in enumerate(state)]
    state_cells = [_slot(f"{optimizer.name}/{v.name}", a, cells[0][1]) for v, a in zip(state, initial, strict=True)]

    def apply(values: Sequence[Any], old: Sequence[Any], gradients: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        with warnings.catch_warnings():
            # A variable without a gradient is left alone, as the step asked for.
            warnings.filterwarnings("ignore", "Gradients do not exist")
            return shadow.stateless_apply(list(old), list(gradients), list(values))

    def publish(first: bool) -> None:
        """The user's own counters become copies of the ones beside the variables."""
        for number, variable in enumerate(optimizer.variables[:2]):
            own_variable = getattr(variable, "simdist_variable", None)
            if own_variable is None:
                continue
            placement: Placement = own_variable.placement
            placement.spread = "copies"
            placement.cells = [state_cells[number]] if first else [*placement.cells, state_cells[number]]

    return Shadow(state_cells, initial, apply, publish)


def _slot(name: str, value: Any, beside: Cell) -> Cell:
    """A cell of an optimizer's state that lies where the cell of a variable does."""
    return Cell(name, aval_of(value), beside.task, kind="slot", places=beside.places, replica=beside.replica)


def _own_value(optimizer: Any, position: int) -> Any:
    """A present value of the user's optimizer: its count of steps or its learning rate."""
    variable = optimizer.variables[position]
    own = getattr(variable, "simdist_variable", None)
    return own.numpy() if own is not None else variable.value


def _apart(make: Callable[[], Any]) -> Any:
    """Run with a Keras state of its own: no strategy adopts what is made, no name is used up."""
    before, apart = active_context(), TaskContext()
    apart.replace(before)
    try:
        return make()
    finally:
        before.replace(apart)


def _built_copy(optimizer: Any, cells: list[tuple[Any, Cell]]) -> Any:
    import keras

    with warnings.catch_warnings():
        # Keras converts its own learning rate to numpy in a way that numpy 2 warns of.
        warnings.simplefilter("ignore", DeprecationWarning)
        config = optimizer.get_config()
    # What belongs to whole gradients is done before they are cut (`simdist.variables.optimizer`).
    for name in BEFORE_THE_UPDATE:
        if name in config and not (name in CLIPPING and config.get("gradient_accumulation_steps")):
            config[name] = None
    config.pop("name", None)
    if not isinstance(config.get("learning_rate"), float):
        config["learning_rate"] = 0.001
    _require_whole_to_clip(config, cells)
    shadow = type(optimizer).from_config(config)
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.Variable):
        shadow._learning_rate = schedule
    stand_ins: list[Any] = []
    for variable, cell in cells:
        stand_in = keras.Variable(jnp.zeros(cell.aval.shape, cell.aval.dtype), name=variable.name.rsplit("/", 1)[-1])
        stand_in._path = variable.name
        constraint = getattr(getattr(variable, "keras_variable", None), "constraint", None)
        if constraint is not None and cell.rows is not None:
            raise InvalidArgumentError(f"{variable.name} has a constraint and is sharded; constraints need the whole variable.")
        stand_in.constraint = constraint
        stand_ins.append(stand_in)
    shadow.build(stand_ins)
    if optimizer.weight_decay:
        left_out = [s for s, (v, _) in zip(stand_ins, cells, strict=True) if not _decays(optimizer, v)]
        shadow.exclude_from_weight_decay(var_list=left_out)
    return shadow


def _require_whole_to_clip(config: dict[str, Any], cells: list[tuple[Any, Cell]]) -> None:
    """Accumulated gradients are clipped where they are accumulated, so a norm must be that of all that lies there.

    Raises:
        InvalidArgumentError: variables are sharded.
    """
    if (config.get("clipnorm") or config.get("global_clipnorm")) and any(cell.rows is not None for _, cell in cells):
        raise InvalidArgumentError(
            "Clipping by norm together with gradient_accumulation_steps needs whole variables, and these are sharded. Use clipvalue, or no "
            "variable_partitioner."
        )


def _decays(optimizer: Any, variable: Any) -> bool:
    own = getattr(variable, "keras_variable", None)
    if own is not None:
        return optimizer._use_weight_decay(own)
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern is None or pattern.search(variable.name) is None


def optax_shadow(transformation: Any, cells: list[tuple[Any, Cell]]) -> Shadow:
    """Shadow an Optax transformation for some cells."""
    zeros = [jnp.zeros(cell.aval.shape, cell.aval.dtype) for _, cell in cells]
    leaves, structure = jax.tree_util.tree_flatten(transformation.init(zeros))
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    state_cells = [_slot(f"optimizer/{i}", leaf, cells[0][1]) for i, leaf in enumerate(leaves)]

    def apply(values: Sequence[Any], old: Sequence[Any], gradients: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        state = jax.tree_util.tree_unflatten(structure, list(old))
        updates, new_state = transformation.update(list(gradients), state, list(values))
        new = [value + jnp.asarray(update, value.dtype) for value, update in zip(values, updates, strict=True)]
        return new, jax.tree_util.tree_leaves(new_state)

    return Shadow(state_cells, leaves, apply, lambda _: None)
