"""Whether the parts of an optimizer's rule can be applied apart from each other: shard by shard, server by server.

Each owner of cells applies the rule to what it holds. That gives the numbers of one device if no part needs to know of another: of shards
each number is changed by its own gradient and state alone; whole variables on different servers share nothing but counts and rates. Both
are read from the jaxpr of the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from simdist.errors import InvalidArgumentError, SimdistError
from simdist.program.dependencies import labels_of_results
from simdist.program.fixed_reads import traced_once
from simdist.program.jaxprs import primitives_in
from simdist.program.recipes import Recipe, recipes
from simdist.program.traces import jaxpr_of, shapes_of
from simdist.program.values import Aval
from simdist.variables.elementwise import changes_place_by_place, numbers_in
from simdist.variables.keras_copies import LARGE_BYTES
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, core_of, is_keras_optimizer, is_scaling
from simdist.variables.slot_optimizer import SlotOptimizer, keras_slot_optimizer, optax_slot_optimizer
from simdist.variables.state import Cell, Owner, owner_of
from simdist.variables.variable import Variable

__all__ = [
    "UNFIT",
    "VariableCells",
    "changes_each_alone",
    "is_elementwise",
    "numbers_of",
    "require_independent",
    "require_whole_or_elementwise",
    "unfit",
]

VariableCells: TypeAlias = "Sequence[tuple[Variable, Cell]]"
"""Cells of one task that an optimizer changes, with their variables."""

RANDOM = ("random_", "threefry", "rng_")
# The states of the rules of Optax that do something else with some of the variables.
OF_SOME = ("MaskedState", "PartitionState", "MultiTransformState")
# The errors of masks and labels that are for other variables than they are given.
UNFIT = (TypeError, ValueError, LookupError, AttributeError)
# The lengths of the cut axis of large variables, where it is asked whether a rule follows from shapes.
STAND_IN_LENGTHS = 2, 3


def is_elementwise(
    optimizer: KerasOptimizer | GradientTransformation, slot_optimizer: SlotOptimizer, cells: VariableCells, parts: Sequence[int]
) -> bool:
    """Whether the rule changes each number of some cells by the gradient and the state of this number alone.

    Args:
        optimizer: the user's.
        slot_optimizer, cells: of it, and the cells that it changes.
        parts: the numbers of the cells that are parts of variables.
    """
    core = _core_of(optimizer, slot_optimizer, cells)
    closed = _jaxpr_of(core, [cell.aval for _, cell in cells])
    values = [number in parts for number in range(len(cells))]
    state = [role.kind == "slot" and role.owner in parts for role in core.roles]
    # Of random numbers each part would draw the same.
    return not _uses(closed.jaxpr, RANDOM) and changes_place_by_place(closed, [*values, *state, *values], [*values, *state])


def numbers_of(
    optimizer: KerasOptimizer | GradientTransformation, slot_optimizer: SlotOptimizer, cells: VariableCells
) -> list[tuple[str, ...]]:
    """What a rule does, with the numbers that stand in it: not the same for other shapes, if it follows from the shapes."""
    return numbers_in(_jaxpr_of(_core_of(optimizer, slot_optimizer, cells), [cell.aval for _, cell in cells]).jaxpr)


def _core_of(optimizer: KerasOptimizer | GradientTransformation, slot_optimizer: SlotOptimizer, cells: VariableCells) -> SlotOptimizer:
    """The rule without a loss scale, which is the same for all: the worker makes all gradients finite, or none."""
    if is_keras_optimizer(optimizer) and is_scaling(optimizer):
        return keras_slot_optimizer(core_of(optimizer), cells)
    return slot_optimizer


def require_whole_or_elementwise(
    optimizer: KerasOptimizer | GradientTransformation, slot_optimizer: SlotOptimizer, cells: VariableCells
) -> None:
    """Refuse a rule of whole variables for shards.

    Raises:
        InvalidArgumentError: some of the cells are shards, and the rule is not element-wise.
    """
    parts = [number for number, (_, cell) in enumerate(cells) if cell.range is not None]
    if not parts:
        return
    try:
        is_allowed = is_elementwise(optimizer, slot_optimizer, cells, parts) and not _follows_shapes(optimizer, cells)
    except SimdistError:
        raise  # the rule needs what no server has
    except (TypeError, ValueError):  # it has arrays of the shape of the whole variable
        is_allowed = False
    if not is_allowed:
        raise InvalidArgumentError(
            f"{type(optimizer).__name__} reduces over whole variables, or brings their numbers together otherwise (a shift, an index, "
            "their shape), or draws random numbers for them, so it cannot be applied shard by shard. Use an element-wise optimizer "
            "(SGD, Adam, RMSprop, ...), or no variable_partitioner."
        )


def _follows_shapes(optimizer: KerasOptimizer | GradientTransformation, cells: VariableCells) -> bool:
    """Whether a rule does something else with a shard than with the whole variable, because of its shape.

    Raises:
        TypeError, ValueError: it can do nothing with another shape.
    """
    of_shards, of_whole = list[Aval](), list[Aval]()
    for variable, cell in cells:
        if cell.range is None or variable.aval.size_bytes < LARGE_BYTES:
            of_shards.append(cell.aval if cell.range is not None else _small(variable))
            of_whole.append(_small(variable))
            continue
        shape, axis = cell.aval.shape, cell.range.axis
        for avals, length in zip((of_shards, of_whole), STAND_IN_LENGTHS, strict=True):
            avals.append(Aval((*shape[:axis], length, *shape[axis + 1 :]), cell.aval.dtype))
    variables = [variable for variable, _ in cells]
    found = [numbers_in(_traced_for(optimizer, variables, avals)[1].jaxpr) for avals in (of_shards, of_whole)]
    return found[0] != found[1]


def require_independent(optimizer: KerasOptimizer | GradientTransformation, variables: Sequence[Variable]) -> None:
    """Refuse a rule in which variables on different servers have to know of each other.

    Args:
        optimizer: the user's.
        variables: all that it changes.

    Raises:
        InvalidArgumentError: the update of a variable depends on the gradient, the value or the slots of another one; or state that they
            share depends on one of them, or there are random numbers.
    """
    if not _are_apart(variables):
        return
    try:
        slot_optimizer, closed = _traced(optimizer, variables)
    except UNFIT as error:
        if isinstance(error, SimdistError) or is_keras_optimizer(optimizer):
            raise
        raise unfit([variable.name for variable in variables], error) from error
    jaxpr = closed.jaxpr
    if _uses(jaxpr, RANDOM):
        _refuse(optimizer, "draws random numbers, which would be the same on all of them")
    updates, state = _what_reaches(jaxpr, slot_optimizer, len(variables))
    for number, label in enumerate(updates):
        if label & ~(1 << number):
            others = [variable.name for other, variable in enumerate(variables) if other != number and label >> other & 1]
            _refuse(optimizer, f"changes {variables[number].name!r} by what it knows of {', '.join(map(repr, others[:3]))}")
    if any(label & (label - 1) for label in state):
        _refuse(optimizer, "keeps state that sums up several variables")
    if isinstance(optimizer, GradientTransformation) and _takes_some_apart(optimizer, variables):
        _require_no_positions(optimizer, variables)


def unfit(names: Sequence[str], error: Exception) -> InvalidArgumentError:
    """The error of an Optax rule that has raised another one for the arrays of some variables."""
    return InvalidArgumentError(
        f"The Optax rule cannot be used for {', '.join(names)}: {' '.join(str(error).split()).rstrip('.')}. sd.Optimizer gives it a list "
        "of their arrays, in this order. Give labels and masks as a list of that length, or as a function of it "
        "(lambda params: [param.ndim > 1 for param in params])."
    )


def _takes_some_apart(transformation: GradientTransformation, variables: Sequence[Variable]) -> bool:
    """Whether the rule has masks or labels."""
    specs = [jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype) for variable in variables]
    state = shapes_of(transformation.init, specs)
    nodes = jax.tree_util.tree_leaves(state, is_leaf=lambda node: type(node).__name__ in OF_SOME)
    return any(type(node).__name__ in OF_SOME for node in nodes)


def _require_no_positions(transformation: GradientTransformation, variables: Sequence[Variable]) -> None:
    """Refuse masks and labels by the position among all variables: a server counts those, and the shards, that it has."""
    of_all = _recipes(transformation, variables)
    for owner, numbers in _lists_of(variables).items():
        try:
            found = _recipes(transformation, [variables[number] for number in numbers])
        except UNFIT:  # a list for all, or a number behind the last, which is refused with the server's name
            return
        for number, recipe in zip(numbers, found, strict=True):
            if recipe != of_all[number]:
                raise InvalidArgumentError(
                    f"The Optax rule does something else with {variables[number].name!r} among all variables than among those of {owner[0]}"
                    f", which applies it to a list of {', '.join([variables[each].name for each in numbers[:8]])}"
                    f"{', ...' if numbers[8:] else ''}: its mask or its labels go by the position in the list. Let them go by the shape "
                    "(lambda params: [param.ndim > 1 for param in params]), or make an optimizer for each part of the variables."
                )


def _recipes(transformation: GradientTransformation, variables: Sequence[Variable]) -> list[Recipe]:
    """What the rule does to each of these variables, with no other."""
    slot_optimizer, closed = _traced(transformation, variables)
    state: list[Recipe] = [(role.kind, role.number) for role in slot_optimizer.roles]
    count = len(variables)
    return recipes(closed, [*["value"] * count, *state, *["gradient"] * count])[:count]


def changes_each_alone(optimizer: KerasOptimizer | GradientTransformation, variables: Sequence[Variable]) -> bool:
    """Whether an update of some of the variables is the same with and without the others: no value and no state knows of another one."""
    with jax.ensure_compile_time_eval():
        slot_optimizer, closed = _traced(optimizer, variables)
    jaxpr = closed.jaxpr
    if _uses(jaxpr, RANDOM):
        return False
    updates, state = _what_reaches(jaxpr, slot_optimizer, len(variables))
    allowed = [1 << role.owner if role.kind == "slot" else 0 for role in slot_optimizer.roles]
    each = [1 << number for number in range(len(variables))]
    return not any(label & ~own for label, own in zip([*updates, *state], [*each, *allowed], strict=True))


def _are_apart(variables: Sequence[Variable]) -> bool:
    """Whether an owner applies the rule to another list than that of all variables: to some of them, or to shards."""
    is_cut = any(cell.range is not None for variable in variables for cell in variable.placement.cells)
    everything = list(range(len(variables)))
    return is_cut or any(numbers != everything for numbers in _lists_of(variables).values())


def _lists_of(variables: Sequence[Variable]) -> dict[Owner, list[int]]:
    """To what each owner applies the rule: of each of its cells the number of the variable; one of several shards is there more often."""
    of_owners: dict[Owner, list[int]] = {}
    for number, variable in enumerate(variables):
        for cell in variable.placement.cells:
            of_owners.setdefault(owner_of(cell), []).append(number)
    return of_owners


def _small(variable: Variable) -> Aval:
    """Its shape; of a large one that of one row, so that its slots take no memory."""
    aval = variable.aval
    return Aval((1, *aval.shape[1:]), aval.dtype) if aval.size_bytes >= LARGE_BYTES else aval


def _traced(optimizer: KerasOptimizer | GradientTransformation, variables: Sequence[Variable]) -> tuple[SlotOptimizer, ClosedJaxpr]:
    """The rule for all variables; of large ones one row stands for all."""
    try:
        return _traced_for(optimizer, variables, list(map(_small, variables)))
    except Exception:  # it goes by their shapes
        return _traced_for(optimizer, variables, [variable.aval for variable in variables])


def _traced_for(
    optimizer: KerasOptimizer | GradientTransformation, variables: Sequence[Variable], avals: Sequence[Aval]
) -> tuple[SlotOptimizer, ClosedJaxpr]:
    pairs = [(variable, Cell(variable.name, aval, "")) for variable, aval in zip(variables, avals, strict=True)]
    if is_keras_optimizer(optimizer):
        slot_optimizer = keras_slot_optimizer(core_of(optimizer), pairs)
    else:
        assert isinstance(optimizer, GradientTransformation)
        slot_optimizer = optax_slot_optimizer(optimizer, pairs)
    return slot_optimizer, _jaxpr_of(slot_optimizer, avals)


def _refuse(optimizer: object, why: str) -> None:
    raise InvalidArgumentError(
        f"{type(optimizer).__name__} {why}, but these variables are on different servers, or in shards, and each server applies the "
        "optimizer to what it has. A norm over all gradients can be taken in the step, on the worker, before apply_gradients; so does "
        "keras.optimizers.SGD(global_clipnorm=...) (and any other of Keras) with mode='async' and no gradient_accumulation_steps. Or use "
        "a cluster with one server, without a variable_partitioner, or a rule that needs one variable at a time."
    )


def _what_reaches(jaxpr: Jaxpr, slot_optimizer: SlotOptimizer, count: int) -> tuple[list[int], list[int]]:
    """The variables, as bits, that reach the new values and the new state of a rule, in one step or in many."""
    own = [1 << number for number in range(count)]
    state = [own[role.owner] if role.kind == "slot" else 0 for role in slot_optimizer.roles]
    while True:
        results = labels_of_results(jaxpr, [*own, *state, *own])
        after = [old | new for old, new in zip(state, results[count:], strict=True)]
        if after == state:
            return results[:count], state
        state = after


@traced_once()
def _jaxpr_of(slot_optimizer: SlotOptimizer, avals: Sequence[Aval]) -> ClosedJaxpr:
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    state = [jax.ShapeDtypeStruct(cell.aval.shape, cell.aval.dtype) for cell in slot_optimizer.cells]
    return jaxpr_of(slot_optimizer.apply, specs, state, specs)


def _uses(jaxpr: Jaxpr, prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefixes) for name in primitives_in(jaxpr))
