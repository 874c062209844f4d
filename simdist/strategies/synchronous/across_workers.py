"""Operations across launched mains: each combines what the workers have, so each worker has to call it.

Every one of them is a step of its own, with a collective in it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from simdist.caches import BoundedCache
from simdist.program.arrays import Array, Tree, is_array
from simdist.program.function import KEPT_SIGNATURES, StepFunction
from simdist.program.operations import Reference
from simdist.program.per_replica import PerReplica, ReplicaLocal
from simdist.program.tracing import Tracer, active_tracer, is_under_a_trace
from simdist.strategies import context
from simdist.strategies.communication import CommunicationOptions
from simdist.strategies.reduction import ReduceOp, as_numbers, reduce_op_of
from simdist.strategies.synchronous.protocols import Axes, LocalGather, LocalReduce, SteppingStrategy
from simdist.variables.aggregation import VariableSynchronization
from simdist.variables.variable import Variable

__all__ = ["AcrossWorkers"]

# Sums of whole numbers below this are exact in float32.
EXACT_BELOW = 2.0**24


class AcrossWorkers:
    """What the mains of several workers do together.

    Args:
        strategy: this main's.
    """

    def __init__(self, strategy: SteppingStrategy) -> None:
        self.strategy = strategy
        self._gathering = StepFunction(_gather, name="gather", counts=False)  # one step for all: a value of a known shape is traced once
        self._reducing: BoundedCache[tuple[object, ...], StepFunction] = BoundedCache(KEPT_SIGNATURES)
        self._reads: BoundedCache[Reference, StepFunction] = BoundedCache(KEPT_SIGNATURES)
        self._num_shared = 0  # so many of the strategy's variables begin as the chief has them

    def share_initial_values(self) -> None:
        """Variables that were created since the last step begin as the chief has them."""
        variables = self.strategy.known_variables
        if self._num_shared >= variables.num_made:
            return
        first, self._num_shared = self._num_shared, variables.num_made
        new = [v for v in variables.made_after(first) if v.synchronization is not VariableSynchronization.ON_READ]

        def share() -> None:
            tracer = _tracer()
            values = tracer.collective("broadcast", [tracer.read(variable) for variable in new], label="variables")
            for variable, value in zip(new, values, strict=True):
                tracer.update("assign", [variable], [value])

        if new:
            self.strategy.eagerly(share, "share initial values", counts=False)

    def read(self, variable: Variable) -> Array:
        """The value of a variable, where each replica has a value of its own: an all-reduce combines them."""
        strategy = self.strategy
        if is_under_a_trace():
            # Keras works out shapes: nobody will see this number, and the others do not call.
            return strategy.store.cell_value(variable, variable.placement.cells[0])
        step = self._reads.get(variable.ref(), lambda: StepFunction(lambda: variable.value, name=f"read {variable.name}", counts=False))
        return strategy.step(step, (), {}).value()

    def reduce(self, local: LocalReduce, options: CommunicationOptions | None, reduce_op: ReduceOp | str, value: Tree, axis: Axes) -> Tree:
        """The replicas' values combined; a plain value is this worker's, and the workers' values are combined."""
        context.require_cross_replica("strategy.reduce")
        op = reduce_op_of(reduce_op)
        if active_tracer() is not None:
            return local(options, op, self._replica_local(op, self.strategy._each(value)), axis)
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else axis
        if not (_is_of_arrays(value) and _are_plain(axes)):
            found = self.strategy.eagerly(lambda: self.reduce(local, options, op, value, axis), "reduce", counts=False)
            return self._means_as_given(value, found) if op is ReduceOp.MEAN and axis is None else found
        step = self._reducing.get(
            (op, axes, options),
            lambda: StepFunction(lambda given: self.reduce(local, options, op, given, axes), name="reduce", counts=False),
        )
        return self.strategy.step(step, (value,), {}).value()

    def _means_as_given(self, value: Tree, means: Tree) -> Tree:
        """Means with those of Python's numbers as such, as they are where one program drives all replicas."""
        if self.strategy.engine.numerics == "off":
            return means
        num_replicas = self.strategy.num_replicas_in_sync

        def as_given(given: Tree, mean: Tree) -> Tree:
            # `type`: numpy's float64 is a float as well, and truth values are whole numbers.
            return _python_number(float(mean), type(given) is int, num_replicas) if type(given) in (int, float) else mean

        return jax.tree_util.tree_map(as_given, value, means, is_leaf=_is_per_replica)

    def gather(self, local: LocalGather, value: Tree, axis: int) -> Tree:
        """The replicas' values joined along an axis, in the order of the replicas."""
        if active_tracer() is not None:
            return local(value, axis)
        context.require_cross_replica("strategy.gather")
        return jax.tree_util.tree_map(lambda leaf: self._gathered(local(leaf, axis), axis), value, is_leaf=_is_per_replica)

    def _gathered(self, value: Array, axis: int) -> Array:
        """First the lengths, then the values, filled up to the longest: what travels must have one shape."""
        device = axis % value.ndim
        lengths = [int(part[0]) for part in self._from_all(jnp.asarray([value.shape[device]]))]
        fill = [(0, max(lengths) - value.shape[device] if dim == device else 0) for dim in range(value.ndim)]
        parts = self._from_all(jnp.pad(value, fill))
        return jnp.concatenate([jax.lax.slice_in_dim(part, 0, n, axis=device) for part, n in zip(parts, lengths, strict=True)], axis=device)

    def bytes_of_all(self, data: bytes) -> list[bytes]:
        """What each main has, in the order of the workers."""
        lengths = [int(part[0]) for part in self._from_all(jnp.asarray([len(data)]))]
        padded = np.zeros(max(*lengths, 1), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        return [np.asarray(part)[:n].tobytes() for part, n in zip(self._from_all(jnp.asarray(padded)), lengths, strict=True)]

    def _from_all(self, value: Array) -> list[Array]:
        """One value of each worker, in their order."""
        return self.strategy.step(self._gathering, (value,), {}).value()[:: len(self.strategy.local_members)]

    def _replica_local(self, op: ReduceOp, value: Tree) -> Tree:
        """A tree with the traced replica's values; of a sum of what all devices of a worker share, the first one's counts."""
        strategy, tracer = self.strategy, _tracer()
        local_rank = strategy.local_rank_of(tracer.rank)

        def local_value(leaf: Tree) -> ReplicaLocal:
            if isinstance(leaf, ReplicaLocal):
                return leaf
            if isinstance(leaf, PerReplica):
                return ReplicaLocal(tracer, leaf.values[local_rank])
            given = as_numbers(leaf, "a value of reduce")
            counts = op is ReduceOp.MEAN or len(strategy.local_members) == 1 or local_rank == 0
            return ReplicaLocal(tracer, given if counts else jnp.zeros_like(given))

        return jax.tree_util.tree_map(local_value, value, is_leaf=_is_per_replica)


def _gather(value: Array) -> list[Array]:
    # The copy is the kernel that puts a value of the host onto the device.
    return [part[0] for part in _tracer().collective("all_gather", [jnp.array(value, copy=True)])]


def _python_number(mean: float, is_of_whole: bool, count: int) -> int | float:
    """A mean in float32; of whole numbers it is whole where it is that exactly, as `statistics.mean` has it."""
    return int(mean) if is_of_whole and mean.is_integer() and abs(mean) * count < EXACT_BELOW else mean


def _tracer() -> Tracer:
    tracer = active_tracer()
    assert tracer is not None
    return tracer


def _is_of_arrays(value: Tree) -> bool:
    """Whether a value is given to a step as it is, which need not be traced for each number; other numbers are a part of their step."""
    leaves = jax.tree_util.tree_leaves(value, is_leaf=_is_per_replica)
    parts = [part for leaf in leaves for part in (leaf.values if isinstance(leaf, PerReplica) else [leaf])]
    return bool(parts) and all(
        is_array(part) and jax.dtypes.canonicalize_dtype(part.dtype, allow_extended_dtype=True) == part.dtype for part in parts
    )


def _are_plain(axes: Axes) -> bool:
    """Whether a step can be found by these axes. True would find that of 1; what is no plain number, the reduction itself looks at."""
    return axes is None or all(type(axis) is int for axis in (axes if isinstance(axes, tuple) else (axes,)))


def _is_per_replica(leaf: Tree) -> bool:
    return isinstance(leaf, PerReplica)
