"""The update rule of an optimizer: how it changes the cells of each task.

An update is applied to each group of cells by itself, on the task that holds them, with the optimizer's slots, its count of
steps and its learning rate beside the cells. That gives the unsharded result exactly when the update is element-wise, which
is read from its jaxpr: an update that reduces over a whole variable (LAMB, Adafactor, a global norm in an Optax chain) is
refused for sharded variables.

The count of steps of a group is the number of updates that were applied to it: it cannot disagree with the variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
from jax.extend.core import Jaxpr

from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.program.jaxprs import inner_jaxprs
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import VariableHandle
from simdist.program.tracing import active_tracer
from simdist.program.values import Aval
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, is_keras_optimizer
from simdist.variables.slot_optimizer import SlotOptimizer, keras_slot_optimizer, optax_slot_optimizer
from simdist.variables.slots import OptimizerSlots, unplaced
from simdist.variables.state import Cell, Group, Layout, Owner, owner_of
from simdist.variables.update_rule import UpdateRule
from simdist.variables.variable import Placement, Variable

__all__ = ["OptimizerRule"]

REDUCING = ("reduce_", "arg", "dot_general", "conv_", "cum", "sort", "cholesky", "qr", "svd", "eigh")


class OptimizerRule(UpdateRule):
    """The rule by which an `Update` of an optimizer changes a group; one object for each set of variables.

    The first operands of its kernels are the group's arrays: cells, the optimizer's own state, and what else lies there.
    """

    def __init__(self, optimizer: KerasOptimizer | GradientTransformation, variables: Sequence[Variable]) -> None:
        self.optimizer = optimizer
        self.variables = list(variables)
        self.slot_optimizers: dict[Owner, SlotOptimizer] = {}
        self.optimized: dict[Owner, list[tuple[int, Cell]]] = {}
        self.slots: OptimizerSlots | None = None

    def __repr__(self) -> str:
        return f"OptimizerRule({type(self.optimizer).__name__})"

    def join(
        self,
        owner: Owner,
        variables: Sequence[VariableHandle],
        cells: list[tuple[int, Cell]],
        layout: Layout,
    ) -> None:
        """Give the cells of one owner the optimizer's state, in one group with them."""
        cells = [(number, cell) for number, v in enumerate(self.variables) for cell in v.placement.cells if owner_of(cell) == owner]
        own = [cell for _, cell in cells]
        if owner in self.slot_optimizers:
            layout.join([*own, *self.slot_optimizers[owner].cells])
            return
        slot_optimizer = self._slot_optimizer(cells)
        if any(cell.range is not None for cell in own) and not _is_elementwise(slot_optimizer, [cell.aval for cell in own]):
            raise InvalidArgumentError(
                f"{type(self.optimizer).__name__} reduces over whole variables, so it cannot be applied shard by shard. Use an "
                "element-wise optimizer (SGD, Adam, RMSprop, ...), or no variable_partitioner."
            )
        before = len(layout.groups)
        try:
            for cell, array in zip(slot_optimizer.cells, slot_optimizer.initial, strict=True):
                layout.add(cell, array)
            layout.join([*own, *slot_optimizer.cells])
        except SimdistError:
            layout.take_back(before)  # a server is down, or full: nothing is left of the slots
            raise
        self.slot_optimizers[owner], self.optimized[owner] = slot_optimizer, cells
        if self.slots is not None:
            self.slots.bind(
                {owner: (slot_optimizer, self.optimized[owner]) for owner, slot_optimizer in self.slot_optimizers.items()}, layout
            )

    def _slot_optimizer(self, cells: Sequence[tuple[int, Cell]]) -> SlotOptimizer:
        pairs = [(self.variables[number], cell) for number, cell in cells]
        if not is_keras_optimizer(self.optimizer):
            assert isinstance(self.optimizer, GradientTransformation)
            return optax_slot_optimizer(self.optimizer, pairs)
        slots = self.slots = self.slots or OptimizerSlots(self.optimizer, self.variables)
        return keras_slot_optimizer(self.optimizer, pairs, lambda role: slots.first_value(role, cells))

    def build(self) -> None:
        """Create the optimizer's state for all variables, before a step needs it."""
        store = self.variables[0].placement.store
        for owner in dict.fromkeys(owner_of(cell) for variable in self.variables for cell in variable.placement.cells):
            self.join(owner, self.variables, [], store.layout)

    def count(self) -> int | jax.Array:
        """The number of updates of an Optax transformation.

        Raises:
            FailedPreconditionError: a step asks before there is a count.
        """
        tracer, store = active_tracer(), self.variables[0].placement.store
        if not self.slot_optimizers:
            if tracer is not None:
                raise FailedPreconditionError(
                    "The optimizer has no count of steps yet. Call its build() with the variables before the step."
                )
            return 0
        cells = [slot_optimizer.cells[-1] for slot_optimizer in self.slot_optimizers.values()]
        counter = unplaced("optimizer/iterations", (), Placement(cells, store, "copies"))
        return int(counter.numpy()) if tracer is None else counter.traced_value(tracer)

    def kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval]) -> Kernel:
        """The kernel that takes the group's arrays and the gradients, and gives the group's new arrays.

        Args:
            group: of the variables' cells and of the optimizer's state; perhaps with others, which it leaves alone.
            positions: in the group, of the cells that the gradients belong to.
            operand_avals: of the gradients.
        """
        owner, size = owner_of(group.cells[0]), len(group.cells)
        slot_optimizer = self.slot_optimizers[owner]
        own = [cell.position for variable in self.variables for cell in variable.placement.cells if owner_of(cell) == owner]
        kept = [cell.position for cell in slot_optimizer.cells]

        def run(*arrays: jax.Array) -> list[jax.Array]:
            changed = list(arrays[:size])
            given = dict(zip(positions, arrays[size:], strict=True))
            values, state = [changed[index] for index in own], [changed[index] for index in kept]
            for indices, new in zip((own, kept), slot_optimizer.apply(values, state, [given.get(index) for index in own]), strict=True):
                for index, array in zip(indices, new, strict=True):
                    changed[index] = array
            return changed

        return kernel_of(f"apply {type(self.optimizer).__name__}", run, [*(cell.aval for cell in group.cells), *operand_avals])


def _is_elementwise(slot_optimizer: SlotOptimizer, avals: Sequence[Aval]) -> bool:
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    state = [jax.ShapeDtypeStruct(cell.aval.shape, cell.aval.dtype) for cell in slot_optimizer.cells]
    jaxpr = jax.make_jaxpr(slot_optimizer.apply)(specs, state, specs)
    return not any(name.startswith(REDUCING) for name in _primitives(jaxpr.jaxpr))


def _primitives(jaxpr: Jaxpr) -> Iterator[str]:
    """The names of all operations of a jaxpr, those inside calls and loops included."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in inner_jaxprs(eqn):
            yield from _primitives(inner)
