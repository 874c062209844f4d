"""The slot optimizer: an optimizer's state for the cells of one task, and the pure function that applies it.

A Keras optimizer is shadowed by one of the same configuration that is built on stand-ins of the cells; an Optax
transformation is initialised on their values. Either way the state is a flat list of cells that lie beside the
variables, and `apply` is pure.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, cast

import jax
import jax.numpy as jnp
from optax import MaskedNode

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike, Tree
from simdist.program.fixed_reads import traced_once
from simdist.program.jaxprs import variables_in
from simdist.program.traces import jaxpr_of
from simdist.program.values import Aval, aval_of
from simdist.variables.keras_copies import UNUSED_RATE, Role, apart, copy_for
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, core_of, is_scaling
from simdist.variables.loss_scaling import Apply, Flat, Given, scaled_apply
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["SlotOptimizer", "depends_on_values", "keras_slot_optimizer", "optax_slot_optimizer", "renewed_slot_optimizer"]

# Parts of Optax states: what `MultiSteps` and `apply_every` add up.
SUMS_OF_STEPS = ("acc_grads", "grad_acc")


@dataclass
class SlotOptimizer:
    """State cells of one task, their first values, and the function that applies gradients.

    Attributes:
        apply: (values, state, gradients) -> (new values, new state), flat sequences of arrays (p...); what has a gradient of None is
            kept.
        roles: what each cell is for; the owner of a slot is a number among the cells that are optimized.
        summed: the numbers of the cells of which the state has sums of the gradients of several steps, which are applied at the last of
            these.
    """

    cells: list[Cell]
    initial: list[jax.Array]
    apply: Apply
    roles: list[Role]
    summed: Set[int] = frozenset()


def keras_slot_optimizer(
    optimizer: KerasOptimizer,
    cells: Sequence[tuple[Variable, Cell]],
    first_value: Callable[[Role], Array | None] = lambda role: None,
    values: Sequence[Array] | None = None,
) -> SlotOptimizer:
    """The slot optimizer of a Keras optimizer, for some cells.

    Args:
        optimizer: the user's.
        cells: (variable, cell) pairs of one task.
        first_value: gives the value that the user's optimizer has for a role; None: that of a new one.
        values: of the cells, where slots begin with them; default zeros.
    """
    copy, roles = apart(lambda: copy_for(optimizer, cells, values))
    given = [first_value(role) for role in roles]
    initial = [jnp.asarray(v.value if value is None else value, v.dtype) for v, value in zip(copy.variables, given, strict=True)]
    state_cells = [
        _slot(f"{optimizer.name}/{v.name}", array, cells[0][1], cells[role.owner][1] if role.kind == "slot" else None)
        for v, array, role in zip(copy.variables, initial, roles, strict=True)
    ]
    inner = (
        scaled_apply(copy) if is_scaling(copy) else lambda values, old, given: copy.stateless_apply(list(old), list(given), list(values))
    )

    def apply(values: Flat, old: Flat, gradients: Given) -> tuple[Flat, Flat]:
        with warnings.catch_warnings():
            # A variable without a gradient is left alone, as the step asked for.
            warnings.filterwarnings("ignore", "Gradients do not exist")
            return inner(values, old, gradients)

    return SlotOptimizer(state_cells, initial, apply, roles, {*range(len(cells) if core_of(optimizer).gradient_accumulation_steps else 0)})


def renewed_slot_optimizer(
    old: SlotOptimizer, optimizer: KerasOptimizer, cells: Sequence[tuple[Variable, Cell]], changed: Sequence[str]
) -> SlotOptimizer:
    """The state cells of a slot optimizer, with the function of what its Keras optimizer is now.

    Args:
        old: the slot optimizer.
        optimizer: the user's.
        cells: (variable, cell) pairs that it changes.
        changed: attributes of the optimizer.

    Raises:
        InvalidArgumentError: that takes other state.
    """

    def slots(of: SlotOptimizer) -> list[tuple[Role, Aval]]:
        pairs = zip(of.roles, of.cells, strict=True)
        return [(UNUSED_RATE if role.kind == "learning_rate" else role, cell.aval) for role, cell in pairs]

    new = keras_slot_optimizer(optimizer, cells)
    if slots(new) != slots(old):
        raise InvalidArgumentError(
            f"{type(optimizer).__name__} has other values of {', '.join(changed)} than at its first step, and needs other slots "
            "for them than it has. Set them before the first step, or make a new optimizer."
        )
    return replace(old, apply=new.apply, roles=new.roles)


def _slot(name: str, value: jax.Array, colocated_with: Cell, of: Cell | None = None) -> Cell:
    """A cell of an optimizer's state, colocated with the cell of a variable; of the same range, where it has its shape."""
    aval = aval_of(value)
    part = of.range if of is not None and of.aval.shape == aval.shape else None
    devices, replica = colocated_with.devices, colocated_with.replica
    return Cell(name, aval, colocated_with.task, part, kind="slot", devices=devices, replica=replica, slot_of="" if of is None else of.name)


def _owner(path: Sequence[Any], shape: tuple[int, ...], cells: Sequence[tuple[Variable, Cell]]) -> Cell | None:
    """The cell that a leaf of an Optax state belongs to: its state has one such leaf for each cell, in a list; None of a count."""
    last: Any = path[-1] if path else None
    number: int = last.idx if isinstance(last, jax.tree_util.SequenceKey) else len(cells)
    return cells[number][1] if number < len(cells) and cells[number][1].aval.shape == shape else None


@traced_once()
def depends_on_values(transformation: GradientTransformation, cells: Sequence[tuple[Variable, Cell]]) -> bool:
    """Whether the first state of an Optax transformation depends on what its variables hold, as that of schedule_free does."""
    specs = [jax.ShapeDtypeStruct(cell.aval.shape, jnp.dtype(cell.aval.dtype)) for _, cell in cells]
    try:
        jaxpr = jaxpr_of(lambda given: jax.tree_util.tree_leaves(transformation.init(given)), specs).jaxpr
    except Exception:  # it looks at its values while it makes its state
        return True
    reached = set(jaxpr.invars)
    for eqn in jaxpr.eqns:
        if reached.intersection(variables_in(eqn.invars)):
            reached.update(eqn.outvars)
    return bool(reached.intersection(variables_in(jaxpr.outvars)))


def optax_slot_optimizer(
    transformation: GradientTransformation, cells: Sequence[tuple[Variable, Cell]], values: Sequence[Array] | None = None
) -> SlotOptimizer:
    """The slot optimizer of an Optax transformation, for some cells; a count of the updates is added to its state.

    Args:
        transformation: the user's.
        cells: (variable, cell) pairs of one task.
        values: of the cells, where its first state depends on them (`depends_on_values`); default zeros.
    """
    first = [jnp.zeros(cell.aval.shape, cell.aval.dtype) for _, cell in cells] if values is None else list(map(jnp.asarray, values))
    empty = transformation.init(first)
    found, structure = jax.tree_util.tree_flatten_with_path(empty)
    keys = [_key_implementation(leaf) for _, leaf in found]
    leaves = [jnp.asarray(leaf if key is None else jax.random.key_data(leaf)) for (_, leaf), key in zip(found, keys, strict=True)]
    owners = [_owner(path, leaf.shape, cells) for (path, _), leaf in zip(found, leaves, strict=True)]
    state_cells = [_slot(f"optimizer/{i}", leaf, cells[0][1], of) for i, (leaf, of) in enumerate(zip(leaves, owners, strict=True))]
    count = jnp.zeros((), jnp.int32)
    state_cells.append(_slot("optimizer/iterations", count, cells[0][1]))
    roles = [*_optax_roles(empty, len(cells)), Role("iteration")]

    def apply(values: Flat, old: Flat, gradients: Given) -> tuple[Flat, Flat]:
        parts = [part if key is None else jax.random.wrap_key_data(part, impl=key) for part, key in zip(old[:-1], keys, strict=True)]
        state = jax.tree_util.tree_unflatten(structure, parts)
        # A transformation takes gradients of all: zeros stand for those that are not there, and what comes of them is not kept.
        given = [jnp.zeros_like(value) if gradient is None else gradient for value, gradient in zip(values, gradients, strict=True)]
        updates, new_state = _updates_of(transformation, given, state, values)
        new = [
            value if gradient is None else value + jnp.asarray(update, value.dtype)
            for value, update, gradient in zip(values, updates, gradients, strict=True)
        ]
        after = [
            one if key is None else jax.random.key_data(one) for one, key in zip(jax.tree_util.tree_leaves(new_state), keys, strict=True)
        ]
        is_kept = [role.kind == "slot" and gradients[role.owner] is None for role in roles[:-1]]
        return new, [*(before if kept else one for before, one, kept in zip(old[:-1], after, is_kept, strict=True)), old[-1] + 1]

    summed = {role.owner for (path, _), role in zip(found, roles[:-1], strict=True) if role.kind == "slot" and _is_of_sum(path)}
    return SlotOptimizer(state_cells, [*leaves, count], apply, roles, summed)


def _is_of_sum(path: Sequence[Any]) -> bool:
    """Whether a leaf of an Optax state is a sum of the gradients of several steps: of `MultiSteps`, or of `apply_every`."""
    return any(getattr(key, "name", None) in SUMS_OF_STEPS for key in path)


def _updates_of(transformation: GradientTransformation, gradients: Flat, state: Tree, values: Flat) -> tuple[Sequence[ArrayLike], Tree]:
    """What an Optax transformation makes of gradients, its state and the values, which is all that an optimizer is given here.

    Raises:
        InvalidArgumentError: it needs more arguments, or values in a structure of its own.
    """
    try:
        updates, new_state = transformation.update(list(gradients), state, list(values))
    except TypeError as error:
        missing = re.search(r"missing \d+ required (?:keyword-only|positional) arguments?: (.*)", str(error))
        if missing is None:
            raise
        raise InvalidArgumentError(
            f"The Optax rule needs {missing[1]} in each update, and sd.Optimizer gives it gradients, its state and the values of the "
            "variables alone: a server that applies it knows no loss. Use a rule without line search; for a learning rate that follows "
            "the loss assign one between steps, with keras.callbacks.ReduceLROnPlateau or optax.inject_hyperparams."
        ) from error
    except AttributeError as error:
        if "'list' object" not in str(error):
            raise
        raise InvalidArgumentError(
            f"The Optax rule takes values in a structure of its own ({error}), as optax.lookahead does, and sd.Optimizer gives it a list "
            "of the values of the variables. Use a rule that takes any structure of arrays."
        ) from error
    return cast(Sequence[ArrayLike], updates), new_state


def _key_implementation(leaf: Any) -> str | None:
    """How a typed random key of JAX draws; None of what is none. A cell holds its plain numbers."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return str(jax.random.key_impl(leaf)) if is_key else None


def _optax_roles(state: object, num_cells: int) -> list[Role]:
    """The roles of the leaves of an Optax state: it has one leaf for each cell, in a list, or one for all.

    In the list of a rule that some cells do not have (``masked``, ``multi_transform``), an empty node stands for each of these.
    """
    found, _ = jax.tree_util.tree_flatten_with_path(state, is_leaf=_is_masked)
    prefixes = [jax.tree_util.keystr(tuple(path[:-1])) for path, _ in found]
    lists: dict[str, int] = {}
    roles: list[Role] = []
    for (path, leaf), prefix in zip(found, prefixes, strict=True):
        last: Any = path[-1] if path else None
        is_list = isinstance(last, jax.tree_util.SequenceKey) and prefixes.count(prefix) == num_cells
        if is_list:
            lists.setdefault(prefix, len(lists))  # also where this server has no cell of the rule: all servers count alike
        if _is_masked(leaf):
            continue
        if is_list:
            roles.append(Role("slot", last.idx, lists[prefix]))
        else:
            roles.append(Role("shared", number=sum(role.kind == "shared" for role in roles)))
    return roles


def _is_masked(node: object) -> bool:
    """Whether it stands in a state of Optax for a cell that the rule leaves to others."""
    return isinstance(node, MaskedNode)
