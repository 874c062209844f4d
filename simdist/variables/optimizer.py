"""Optimizers where the variables live.

An update by an optimizer is applied to each group of cells by itself, on the task that holds them, with the optimizer's
slots, its count of steps and its learning rate beside the cells. That gives the unsharded result exactly when the
update is element-wise, which is read from its jaxpr: an update that reduces over a whole variable (LAMB, Adafactor, a
global norm in an Optax chain) is refused for sharded variables. Clipping by norm belongs to the whole gradient, so it
is taken off the optimizer and done by the worker, before the gradients are cut.

The count of steps of a group is the number of updates that were applied to it: it cannot disagree with the variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.tracing import Tracer, active_tracer
from simdist.program.values import Aval
from simdist.variables.compressed_sum import CompressedSum
from simdist.variables.gradient_sum import summed_over_replicas
from simdist.variables.shadow import Shadow, keras_shadow, optax_shadow
from simdist.variables.state import Cell, Group, Layout, Owner, owner_of
from simdist.variables.variable import Variable

__all__ = ["Optimizer", "OptimizerRule"]

REDUCING = ("reduce_", "arg", "dot_general", "conv_", "cum", "sort", "cholesky", "qr", "svd", "eigh")


class OptimizerRule:
    """How an `Update` by an optimizer changes a group; one object for each set of variables.

    The first operands of its kernels are the group's arrays: cells, the optimizer's own state, and what else lies there.
    """

    def __init__(self, optimizer: Any, variables: Sequence[Variable]) -> None:
        self.optimizer = optimizer
        self.variables = list(variables)
        self.shadows: dict[Owner, Shadow] = {}

    def __repr__(self) -> str:
        return f"OptimizerRule({type(self.optimizer).__name__})"

    def join(
        self,
        owner: Owner,
        variables: Sequence[Any],
        cells: list[tuple[int, Cell]],
        layout: Layout,
        arrays_of: Callable[..., Any],
    ) -> None:
        """Give the cells of one owner the optimizer's state, in one group with them."""
        cells = [(number, cell) for number, v in enumerate(self.variables) for cell in v.placement.cells if owner_of(cell) == owner]
        variables, own = self.variables, [cell for _, cell in cells]
        if owner in self.shadows:
            layout.join([*own, *self.shadows[owner].cells], arrays_of)
            return
        sharded = any(cell.rows is not None for cell in own)
        make = keras_shadow if hasattr(self.optimizer, "update_step") else optax_shadow
        shadow = make(self.optimizer, [(variables[number], cell) for number, cell in cells])
        if sharded and not _is_elementwise(shadow, [cell.aval for cell in own]):
            raise InvalidArgumentError(
                f"{type(self.optimizer).__name__} reduces over whole variables, so it cannot be applied shard by shard. Use an "
                "element-wise optimizer (SGD, Adam, RMSprop, ...), or no variable_partitioner."
            )
        self.shadows[owner] = shadow
        for cell, array in zip(shadow.cells, shadow.initial, strict=True):
            layout.add(cell, array)
        layout.join([*own, *shadow.cells], arrays_of)
        shadow.publish(len(self.shadows) == 1)

    def kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval]) -> Kernel:
        """The kernel that takes the group's arrays and the gradients, and gives the group's new arrays.

        Args:
            group: of the variables' cells and of the optimizer's state; perhaps with others, which it leaves alone.
            positions: in the group, of the cells that the gradients belong to.
            operand_avals: of the gradients.
        """
        owner, size = owner_of(group.cells[0]), len(group.cells)
        shadow = self.shadows[owner]
        own = [cell.position for variable in self.variables for cell in variable.placement.cells if owner_of(cell) == owner]
        kept = [cell.position for cell in shadow.cells]

        def run(*arrays: Any) -> list[Any]:
            changed = list(arrays[:size])
            given = dict(zip(positions, arrays[size:], strict=True))
            values, state = [changed[place] for place in own], [changed[place] for place in kept]
            for places, new in zip((own, kept), shadow.apply(values, state, [given.get(place) for place in own]), strict=True):
                for place, array in zip(places, new, strict=True):
                    changed[place] = array
            return changed

        return kernel_of(f"apply {type(self.optimizer).__name__}", run, [*(cell.aval for cell in group.cells), *operand_avals])


def _is_elementwise(shadow: Shadow, avals: Sequence[Aval]) -> bool:
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    state = [jax.ShapeDtypeStruct(cell.aval.shape, cell.aval.dtype) for cell in shadow.cells]
    jaxpr = jax.make_jaxpr(shadow.apply)(specs, state, specs)
    return not any(name.startswith(REDUCING) for name in _primitives(jaxpr.jaxpr))


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all operations of a jaxpr, those inside calls and loops included."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    yield from _primitives(inner)


class Optimizer:
    """A Keras optimizer or an Optax transformation, applied where the variables live.

    Args:
        optimizer: ``keras.optimizers.SGD()`` and the like, or ``optax.adam(1e-3)`` and the like.

    Raises:
        TypeError: neither of the two.
    """

    def __init__(self, optimizer: Any) -> None:
        if not (hasattr(optimizer, "update_step") or (hasattr(optimizer, "init") and hasattr(optimizer, "update"))):
            raise TypeError(f"sd.Optimizer takes a Keras optimizer or an Optax transformation; got {type(optimizer).__name__}.")
        self.wrapped = optimizer
        self._rules: dict[tuple[int, ...], OptimizerRule] = {}
        self._compressed: dict[Any, CompressedSum] = {}

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], skip_gradients_aggregation: bool = False) -> None:
        """Update variables by their gradients; in a step, an operation of the program.

        Called by a replica, it first adds up the gradients of all replicas.

        Args:
            grads_and_vars: pairs (gradient, variable); a gradient of None leaves its variable alone.
            skip_gradients_aggregation: True where the gradients are those of all replicas already; default False.

        Raises:
            FailedPreconditionError: called outside a step.
        """
        tracer = active_tracer()
        if tracer is None:
            raise FailedPreconditionError("Optimizer.apply_gradients works inside a step: put it into a function under @sd.function.")
        pairs = [(gradient, as_variable(variable)) for gradient, variable in grads_and_vars if gradient is not None]
        variables = [variable for _, variable in pairs]
        gradients = [jnp.asarray(gradient, variable.dtype) for gradient, variable in pairs]
        if tracer.in_replica and tracer.num_replicas > 1 and not skip_gradients_aggregation:
            gradients = self._summed(tracer, gradients, variables)
        tracer.update(self._rule(variables), variables, self._clipped(gradients))

    def _rule(self, variables: Sequence[Variable]) -> OptimizerRule:
        """The one for these variables: of a Keras optimizer one that has them among others, for their slots and its count of steps."""
        key = tuple(map(id, variables))
        if key not in self._rules:
            wider = (rule for known, rule in self._rules.items() if hasattr(self.wrapped, "update_step") and set(key) <= set(known))
            self._rules[key] = next(wider, None) or OptimizerRule(self.wrapped, variables)
        return self._rules[key]

    def _summed(self, tracer: Tracer, gradients: list[Any], variables: list[Variable]) -> list[Any]:
        compression = getattr(tracer.options, "compression", None)
        if compression is None or tracer.options.local:
            return summed_over_replicas(tracer, gradients)
        if compression not in self._compressed:
            self._compressed[compression] = CompressedSum(compression)
        return self._compressed[compression].sums(tracer, gradients, variables)

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        """The gradients, unscaled and clipped; those that are accumulated are clipped when they are complete."""
        scale = getattr(self.wrapped, "loss_scale_factor", None)
        if scale is not None:
            gradients = [gradient / scale for gradient in gradients]
        clip = getattr(self.wrapped, "_clip_gradients", None)
        accumulates = getattr(self.wrapped, "gradient_accumulation_steps", None)
        return gradients if clip is None or accumulates else list(clip(gradients))

    @property
    def iterations(self) -> Any:
        """How many updates were applied."""
        if hasattr(self.wrapped, "iterations"):
            return self.wrapped.iterations
        shadows = [shadow for rule in self._rules.values() for shadow in rule.shadows.values()]
        return shadows[0].iterations if shadows else 0


def as_variable(variable: Any) -> Variable:
    """Our variable behind a Keras variable, or the variable itself.

    Raises:
        InvalidArgumentError: made outside a strategy's scope.
    """
    own = variable if isinstance(variable, Variable) else getattr(variable, "simdist_variable", None)
    if own is None:
        raise InvalidArgumentError(
            f"The variable {getattr(variable, 'path', variable)!r} was made outside strategy.scope(), so no strategy knows where it lives. "
            "Make the model, the optimizer and the metrics inside `with strategy.scope():`."
        )
    return own
