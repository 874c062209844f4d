"""`MirroredStrategy`: every device computes a part of the batch, and all-reduce keeps their variables equal.

The replicas of one step run side by side, as coroutines that meet at each all-reduce: the function is traced once for each
replica, into one program. Each device is charged its share of the computation, and the links between the devices the
time of a ring all-reduce. Variables are kept once, because the copies cannot differ.

Source of the ring: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import greenlet
import jax

from simdist.errors import InvalidArgumentError
from simdist.program.tracing import active_tracer
from simdist.program.values import aval_of
from simdist.simulation.task_context import active_context
from simdist.strategies import context
from simdist.strategies.base import ReduceOp
from simdist.strategies.one_device import LocalStrategy
from simdist.strategies.per_replica import PerReplica

__all__ = ["MirroredStrategy"]


class MirroredStrategy(LocalStrategy):
    """Synchronous training on several devices of one machine.

    Args:
        devices: how many, or their names; None: one.

    Raises:
        InvalidArgumentError: no device, or one that is named twice.
    """

    def __init__(self, devices: int | Sequence[str] | None = None) -> None:
        names = [f"gpu:{i}" for i in range(devices)] if isinstance(devices, int) else list(devices or ["cpu:0"])
        if not names:
            raise InvalidArgumentError(f"devices={devices!r} names no device; give a number of 1 or more, or a list of names.")
        if len(set(names)) != len(names):
            raise InvalidArgumentError(f"devices={names!r} names a device twice; every replica needs its own.")
        super().__init__()
        self.device_names = names
        for lane in self.devices:
            self.runtime.trace.declare_lane(lane)

    @property
    def num_replicas_in_sync(self) -> int:
        return len(self.device_names)

    @property
    def devices(self) -> list[str]:
        return [f"{self.home}/{name}" for name in self.device_names]

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Run a function for every replica; `PerReplica` arguments are unpacked, others are given to all."""
        if not isinstance(args, (list, tuple)):
            raise InvalidArgumentError(f"args must be a list or tuple of the arguments; got {type(args).__name__}.")
        return self.run_replicas(fn, args, kwargs or {}, range(self.num_replicas_in_sync))

    def run_replicas(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], replicas: Sequence[int]) -> Any:
        """Run a function for some of the replicas: those that have a part of the batch."""
        meeting = _Meeting(self)
        results = meeting.run([lambda r=r: fn(*_part(list(args), r), **_part(kwargs, r)) for r in replicas], list(replicas))
        first = results[0]
        if all(result is first for result in results):
            return first
        structures = [jax.tree_util.tree_structure(result) for result in results]
        if any(structure != structures[0] for structure in structures):
            raise InvalidArgumentError("The replicas returned different structures; return the same one from each.")
        return jax.tree_util.tree_map(lambda *values: PerReplica(values), *results)

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | None = None) -> Any:
        """Combine the replicas' values; with an axis, also over that axis of each."""
        context.require_cross_replica("strategy.reduce")
        op = ReduceOp(str(reduce_op.value if isinstance(reduce_op, ReduceOp) else reduce_op).lower())
        parts = list(value.values) if isinstance(value, PerReplica) else [value]
        if len(parts) == 1:
            return super().reduce(op, parts[0], axis)
        count: Any = len(parts)
        if axis is not None:
            count = sum(part.shape[axis] for part in parts)
            parts = [part.sum(axis=axis) for part in parts]
        total = sum(parts[1:], parts[0])
        return total if op is ReduceOp.SUM else total / count

    def local_results(self, value: Any) -> tuple[Any, ...]:
        return value.values if isinstance(value, PerReplica) else (value,)

    def all_reduce_in_replica(self, op: Any, value: Any) -> Any:
        """Meet the other replicas, and combine a structure of values with theirs."""
        meeting: _Meeting | None = active_context().locals.get("meeting")
        if meeting is None or len(meeting.replicas) == 1:
            return value
        op = ReduceOp(str(op.value if isinstance(op, ReduceOp) else op).lower())
        return meeting.combine(op, value)


def _part(structure: Any, replica: int) -> Any:
    is_leaf = lambda x: isinstance(x, PerReplica)  # noqa: E731
    return jax.tree_util.tree_map(lambda x: x.values[replica] if isinstance(x, PerReplica) else x, structure, is_leaf=is_leaf)


class _Meeting:
    """Replicas as coroutines that stop at each all-reduce until all have come."""

    def __init__(self, strategy: MirroredStrategy) -> None:
        self.strategy = strategy
        self.replicas: list[int] = []
        self.offers: list[Any] = []
        self.hub = greenlet.getcurrent()

    def run(self, functions: list[Callable[[], Any]], replicas: list[int]) -> list[Any]:
        self.replicas = replicas
        results: list[Any] = [None] * len(functions)
        coroutines = [greenlet.greenlet(lambda i=i, fn=fn: results.__setitem__(i, fn())) for i, fn in enumerate(functions)]
        here = active_context().locals
        contexts = here.setdefault("replica_contexts", [])
        outer, tracer = here.get("meeting"), active_tracer()
        here["meeting"] = self
        answers: list[Any] = [None] * len(functions)
        try:
            while not all(coroutine.dead for coroutine in coroutines):
                self.offers = []
                for i, coroutine in enumerate(coroutines):
                    contexts.append(context.ReplicaContext(self.strategy, replicas[i]))
                    if tracer is not None:
                        tracer.replica, tracer.leading = replicas[i], i == 0
                    try:
                        coroutine.switch(*(() if answers[i] is None else (answers[i][0],)))
                    finally:
                        contexts.pop()
                        if tracer is not None:
                            tracer.replica, tracer.leading = 0, True
                answers = self._answers(coroutines)
        finally:
            here["meeting"] = outer
        return results

    def combine(self, op: ReduceOp, value: Any) -> Any:
        self.offers.append((op, value))
        return self.hub.switch()

    def _answers(self, coroutines: list[Any]) -> list[Any]:
        if not self.offers:
            return [None] * len(coroutines)
        if len(self.offers) != len(coroutines):
            raise InvalidArgumentError("Some replicas reached an all-reduce that others never make; every replica must make the same ones.")
        op = self.offers[0][0]
        flat = [jax.tree_util.tree_flatten(value) for _, value in self.offers]
        if any(structure != flat[0][1] for _, structure in flat):
            raise InvalidArgumentError("The replicas gave different structures to one all-reduce.")
        operands = [leaf for leaves, _ in flat for leaf in leaves]
        tracer = active_tracer()
        assert tracer is not None
        avals = [aval_of(leaf) for leaf in flat[0][0]]
        combined = tracer.mark("all_reduce", operands, avals, reduce=op.value)
        answer = jax.tree_util.tree_unflatten(flat[0][1], combined)
        return [(answer,)] * len(coroutines)
