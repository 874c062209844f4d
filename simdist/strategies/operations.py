"""Operations on the replicas of a strategy: run a function on each, and combine their values.

Inside a step only the values of one replica are known, and a collective combines them with the others. Outside, all values are known.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, TypeVar, cast
from weakref import ref

import jax

from simdist.arguments import name_of_function, require_arguments, require_function, require_shallow
from simdist.caches import OfLiving
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import is_array
from simdist.program.explained_errors import explained
from simdist.program.function import KEPT_SIGNATURES, StepFunction, step_behind
from simdist.program.narrowing import require_numbers
from simdist.program.per_replica import PerReplica, ReplicaLocal, of_replica, rows_of, spread
from simdist.program.scope import running_scope
from simdist.program.tracing import active_tracer
from simdist.strategies import context, reduction
from simdist.strategies.communication import CommunicationOptions
from simdist.strategies.reduction import ReduceOp, reduce_op_of
from simdist.uncopied import Uncopied
from simdist.variables.handles import own_variable

__all__ = ["ReplicaOperations"]

T = TypeVar("T")


class ReplicaOperations(Uncopied, instead="Make another one; a checkpoint takes the values of its variables along."):
    """The part of `Strategy` that concerns functions and values of replicas."""

    store: Any

    @property
    def ranks(self) -> range:
        """The replicas that this program drives."""
        return range(self.num_replicas_in_sync)

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas that compute one step together."""
        return 1

    @property
    def has_several_replicas(self) -> bool:
        """Whether several replicas take steps together; one that is away, and may come back, counts."""
        return self.num_replicas_in_sync > 1

    # -- running --------------------------------------------------------------------------------------------------

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None, options: Any = None) -> Any:
        """Run a function for every replica.

        Args:
            fn: the function that each replica calls; one under ``@sd.function`` is traced once for each signature, another in each call.
            args: its arguments, as a list or tuple; of a `PerReplica` each replica gets its own value, anything else goes to all.
            kwargs: further arguments, likewise.
            options: only None: the RunOptions of tf.distribute do not exist here.

        Returns:
            The results of the r replicas: `PerReplica` values, each of r values, or with one replica the value itself.

        Raises:
            TypeError: `fn` is not a function.
            InvalidArgumentError: args is not a list or tuple, or they are nested too deeply.
            FailedPreconditionError: called inside another `run`.
        """
        require_function(fn, "strategy.run")
        require_arguments(args, kwargs, "strategy.run")
        fn = step_behind(fn)
        if options is not None:
            raise InvalidArgumentError(f"options={options!r}: there is nothing to choose about strategy.run here; leave it out.")
        context.require_cross_replica("strategy.run")
        if active_tracer() is None and self.has_several_replicas:
            if isinstance(fn, StepFunction):
                return self.run_step(self._steps_of_replicas.get(fn, lambda: self._step_of_replicas(fn)), (list(args), kwargs or {}), {})
            return self.eagerly(lambda: self.run(fn, args, kwargs), name_of_function(fn, "run"))
        context.require_stepping(self)
        given = list(args), kwargs or {}
        here = self._arguments_here(given)
        parts = rows_of(given, here)
        with context.replica(self, parts):
            try:
                result = fn(*here[0], **here[1])
            except (TypeError, ValueError) as error:
                if (clearer := explained(error, "strategy.run", *here)) is None:
                    raise
                raise clearer from error
        require_shallow(result, "the results of strategy.run")
        _require_numbers(result, "a result of strategy.run")
        return spread(result, parts) if active_tracer() is not None else result

    @cached_property
    def _steps_of_replicas(self) -> OfLiving[StepFunction, StepFunction]:
        return OfLiving(KEPT_SIGNATURES)

    def _step_of_replicas(self, fn: StepFunction) -> StepFunction:
        """The step of all replicas in which each calls `fn`."""
        # Who calls the step has `fn`, which must not live for as long as the step is kept; where its Python runs late, it must.
        known = cast(Callable[[], StepFunction], (lambda: fn) if fn.run_eagerly else ref(fn))
        step = StepFunction(lambda args, kwargs: self.run(known(), args, kwargs), fn.seconds, fn.name, fn.counts)
        step.run_eagerly = fn.run_eagerly
        return step

    def run_step(self, fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run a step that was called directly, and return its values."""
        raise NotImplementedError

    def require_own_run(self, variable: Any) -> None:
        """Raise if a variable of this strategy is used in a replica of another one.

        Raises:
            FailedPreconditionError: it does.
        """
        running = cast(object, running_scope())  # a class that has operations alone is no whole scope
        if running is not None and running is not self and not context.is_default(self):
            raise FailedPreconditionError(
                f"Mixing different strategies: {variable.name} was made in the scope of {self!r}, but is used inside the run of "
                f"{running!r}. Make the variable in that strategy's scope."
            )

    def require_change_at_once(self, variable: Any) -> None:
        """Raise if a variable of this strategy must not be changed outside of every step here and now."""

    def assigned(self, variable: Any, rule: str, operand: Any) -> None:
        """A variable of this strategy was changed from outside of every step: "assign", or "add"."""

    def agree(self, variables: Sequence[Any]) -> None:
        """All programs have assigned to these variables, each what its replicas have: from now on they have the average."""

    @property
    def keeps_companions(self) -> bool:
        """Whether variables have companions, from the first training step on."""
        return False

    @property
    def kept(self) -> Mapping[str, object]:
        """What this strategy itself keeps from step to step, by name, for a checkpoint."""
        return {}

    def evaluating(self, alone: bool = False) -> AbstractContextManager[None]:
        """Inside, all replicas evaluate the same model; `alone`: a launched main may not count on the others, and evaluates its own."""
        return nullcontext()

    def reading_alone(self, alone: bool = True) -> AbstractContextManager[None]:
        """Inside, a launched main reads the mean of its own replicas, whatever the others do; `alone`: whether it does."""
        return nullcontext()

    def temporarily(self) -> AbstractContextManager[None]:
        """Inside, what is assigned to variables is no part of the training: it stands there for a while."""
        return nullcontext()

    def _arguments_here(self, arguments: Any) -> Any:
        """The arguments of one replica."""
        tracer = active_tracer()

        def of_this_replica(leaf: Any) -> Any:
            # Only an argument from outside the step has the values of all replicas; which is ours makes a difference.
            if not isinstance(leaf, PerReplica) or isinstance(leaf, ReplicaLocal):
                return of_replica(leaf, 0)
            self.require_parts(leaf)
            return of_replica(leaf, self.local_rank_of(tracer.rank) if tracer is not None and tracer.num_replicas > 1 else 0)

        return jax.tree_util.tree_map(of_this_replica, arguments, is_leaf=lambda x: isinstance(x, PerReplica))

    def require_parts(self, value: PerReplica) -> None:
        """Refuse values of replicas that do not fit those that are there now.

        Raises:
            InvalidArgumentError: they do not.
        """

    def eagerly(self, fn: Callable[[], T], name: str, counts: bool = True) -> T:
        """Run a function as a step of its own, once; `counts`: whether tasks have taken one step more then."""
        raise NotImplementedError

    def observe(self, read: Callable[[], Any]) -> Any:
        """Read variables, all of them at once: where workers have replica-local values, in one collective."""
        return read()

    def observe_without_values(self, read: Callable[[], object]) -> None:
        """Take the time of `observe` where no numbers are computed."""

    def local_rank_of(self, rank: int) -> int:
        """The local rank of a replica: its number among those that this program drives."""
        return rank

    def reduce(self, reduce_op: ReduceOp | str, value: Any, axis: int | Sequence[int] | None) -> Any:
        """Combine the replicas' values, and the given axes of each with them.

        Args:
            reduce_op: SUM or MEAN, or its name in any case. A sum has the dtype of the values (`ReduceOp`): int8 wraps around.
            value: a result of `run` (r values of one shape), or a structure of them.
            axis: None keeps the shape of one replica's value; an axis, or several, are also reduced over. A mean over an axis
                weighs every element equally, whichever replica has it.

        Raises:
            InvalidArgumentError: another operation, an axis out of range, different shapes, or SUM of what all replicas share.
            FailedPreconditionError: called inside `run`.
        """
        return self.reduce_with(None, reduce_op, value, axis)

    def reduce_with(
        self, options: CommunicationOptions | None, reduce_op: ReduceOp | str, value: Any, axis: int | Sequence[int] | None
    ) -> Any:
        """The same with options for the collective that this takes in a step, or between programs."""
        context.require_cross_replica("strategy.reduce")
        context.require_stepping(self)
        return reduction.reduce(reduce_op_of(reduce_op), self._each(value), axis, self.num_replicas_in_sync, options)

    def gather(self, value: Any, axis: int) -> Any:
        """Join the replicas' values along an axis, in the order of the replicas; lengths along it may differ.

        In a step, and in launched mains, it is an all-gather, with the bytes of values that are filled up to the longest.

        Raises:
            InvalidArgumentError: scalars, different numbers of axes, or an axis out of range.
            FailedPreconditionError: called inside `run`.
        """
        context.require_cross_replica("strategy.gather")
        context.require_stepping(self)
        return reduction.gather(self._each(value), axis)

    def _each(self, value: Any) -> Any:
        """A structure with a `PerReplica` in place of each variable of which every replica has a value of its own."""
        require_shallow(value, "the values of the replicas")
        tracer = active_tracer()

        def values(leaf: Any) -> Any:
            if isinstance(leaf, PerReplica):
                _require_numbers(leaf.local_value if isinstance(leaf, ReplicaLocal) else leaf.values, "a value of a replica", str)
            variable = own_variable(leaf)
            if variable is None or variable.placement.spread != "replicas" or variable.placement.store is not self.store:
                return leaf
            return PerReplica(self.local_results(leaf)) if tracer is None else ReplicaLocal(tracer, tracer.read(variable))

        return jax.tree_util.tree_map(values, value, is_leaf=lambda x: isinstance(x, PerReplica))

    def local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of the replicas that this program drives, as a tuple; a plain value as a tuple of one."""
        context.require_stepping(self)
        require_shallow(value, "the values of strategy.local_results")
        leaves, structure = jax.tree_util.tree_flatten(value, is_leaf=lambda x: isinstance(x, PerReplica))
        if not any(isinstance(leaf, PerReplica) for leaf in leaves):
            return self._own_values(value)
        # In a step the values of all replicas are a collective, so they are asked for once.
        values = [leaf.values if isinstance(leaf, PerReplica) else None for leaf in leaves]
        count = len(next(of_leaf for of_leaf in values if of_leaf is not None))

        def of_local_rank(local_rank: int) -> list[Any]:
            return [leaf if each is None else each[local_rank] for leaf, each in zip(leaves, values, strict=True)]

        return tuple(jax.tree_util.tree_unflatten(structure, of_local_rank(local_rank)) for local_rank in range(count))

    def _own_values(self, value: Any) -> tuple[Any, ...]:
        """The value of a variable at each replica, replica-local or a copy."""
        variable = own_variable(value)
        if variable is None or variable.placement.store is not self.store:
            return (value,)
        placement = variable.placement
        if placement.spread == "replicas":
            return tuple(self.store.cell_value(variable, cell) for cell in placement.cells)
        return (value,) if len(self.ranks) == 1 else (self.store.observe(variable),) * len(self.ranks)

    # -- in a replica ---------------------------------------------------------------------------------------------

    def all_reduce_in_replica(self, op: Any, value: Any, options: Any = None) -> Any:
        """See `ReplicaContext.all_reduce`."""
        return reduction.all_reduce(reduce_op_of(op), value, CommunicationOptions.of_call(options, in_packs=True))

    def all_gather_in_replica(self, value: Any, axis: int, options: Any = None) -> Any:
        """See `ReplicaContext.all_gather`."""
        return reduction.all_gather(value, axis, CommunicationOptions.of_gather(options))

    def merge_in_replica(self, merge_fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """See `ReplicaContext.merge_call`."""
        require_arguments(args, kwargs, "merge_call")
        require_function(merge_fn, "merge_call")
        traced = active_tracer() is not None
        with context.across_replicas():
            given, named = _across((list(args), kwargs)) if traced else (args, kwargs)
            result = merge_fn(self, *given, **named)
        return self._arguments_here(result)

    experimental_local_results = local_results


def _across(arguments: Any) -> Any:
    """What the replicas gave, across them: a `PerReplica` of each array; a variable is one for all."""
    return jax.tree_util.tree_map(lambda leaf: spread(leaf) if own_variable(leaf) is None else leaf, arguments)


def _require_numbers(structure: Any, what: str, *words: type[str]) -> None:
    """Refuse strings and other arrays that hold no numbers; of these `words`, also what is no array."""
    for leaf in jax.tree_util.tree_leaves(structure):
        if is_array(leaf) or isinstance(leaf, words):
            require_numbers("str" if isinstance(leaf, str) else leaf.dtype.name, what)
