"""`Optimizer`: updates that are applied on the tasks that hold the variables.

An update is one operation of the program for each task that holds variables (`simdist.variables.optimizer_rule`). The worker does
before that what needs the whole gradient: the sum over the replicas, the loss scale, clipping by norm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp

from simdist.arguments import flag, listed
from simdist.collectives.compression import Compressor
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import ArrayLike, is_array
from simdist.program.narrowing import canonical, numbers_for_jax
from simdist.program.saved_parts import waiting_values
from simdist.program.scope import current_scope
from simdist.program.tracing import Tracer, active_tracer
from simdist.variables.compressed_sum import CompressedSum
from simdist.variables.gradient_sum import policy_of, summed_over_replicas, with_rows_apart
from simdist.variables.handles import AnyVariable, own_variable, shown_name
from simdist.variables.keras_copies import clips_with_update
from simdist.variables.keras_objects import (
    GradientTransformation,
    KerasOptimizer,
    KerasVariable,
    clipped,
    holds_optimizers,
    is_keras_optimizer,
    is_scaling,
    trained_variables,
)
from simdist.variables.loss_scaling import all_finite, unscaled, without_scale
from simdist.variables.optimizer_rule import OptimizerRule
from simdist.variables.overwriting import is_overwritten, maxima_over_replicas, require_overwritable
from simdist.variables.row_rule import warn_of_changed_sums, warn_of_whole_tables
from simdist.variables.rule_parts import require_counting, require_part
from simdist.variables.rule_state import is_count
from simdist.variables.variable import Variable
from simdist.variables.wrapped_attributes import WrappedAttributes

__all__ = ["Optimizer", "as_variable", "variables_of", "renew_rules"]


class Optimizer(WrappedAttributes):
    """A Keras optimizer or an Optax transformation, applied where the variables live.

    For loops of your own, and for model functions of Estimators. ``compile`` of a Keras model takes a Keras optimizer as it is.

    Args:
        optimizer: ``keras.optimizers.SGD()`` and the like, or ``optax.adam(1e-3)`` and the like. One of Optax gets lists of arrays, in the
            order of the variables of `build` or of the first `apply_gradients`: masks and labels are lists, or functions of a list. With a
            variable_partitioner, or several servers, these are the variables, or shards, of one server: give functions that go by shapes.
        lazy_rows: of a table of which a step looks up rows (`sd.embedding_lookup`, ``keras.layers.Embedding``), change only the rows that
            have a gradient; the slots of others stand still meanwhile. (Keras 3 changes all rows, also on TensorFlow.) All rows change
            where the table is fewer bytes, and in a step to which launched mains bring different numbers of ids. Where gradients are never
            rows it has no effect, and warns: under `CentralStorageStrategy`, with `sync_every` and with compression. So it does where they
            are clipped before they are sent (in rounds servers clip, and by `clipvalue` leave them rows) or a scale is taken off them,
            where a step of one replica uses them elsewhere, too, with rules that bring numbers of several rows together, and with those
            that add up gradients of several steps. One replica that runs without `sd.function` has no steps: it has no effect there, and
            does not warn. Default False: the numbers are those of a dense gradient. It makes a difference for rules whose slots decay
            (momentum, RMSprop, Adam).

    Raises:
        InvalidArgumentError: a Keras `MultiOptimizer`.
        TypeError: neither of the two, or `lazy_rows` neither True nor False.

    Example:
        >>> import optax
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(devices=2)
        >>> with strategy.scope():
        ...     v, optimizer = sd.Variable(1.0), sd.Optimizer(optax.sgd(0.5))
        >>> strategy.run(lambda: optimizer.apply_gradients([(1.0, v)]))  # each replica gives 1, so their sum is 2
        >>> float(v.numpy())
        0.0
    """

    def __init__(self, optimizer: KerasOptimizer | GradientTransformation, lazy_rows: bool = False) -> None:
        if not (is_keras_optimizer(optimizer) or isinstance(optimizer, GradientTransformation)):
            raise TypeError(
                f"sd.Optimizer takes a Keras optimizer, keras.optimizers.SGD(0.1), or an Optax transformation, optax.sgd(0.1); got "
                f"{repr(optimizer) if isinstance(optimizer, str) else type(optimizer).__name__}."
            )
        if is_keras_optimizer(optimizer) and holds_optimizers(optimizer):
            raise InvalidArgumentError(
                f"{type(optimizer).__name__} has several optimizers, each with slots and a count of its own, and sd.Optimizer takes one. "
                "In a step of your own, apply one sd.Optimizer to each set of variables; or train all of them with one optimizer."
            )
        self.wrapped = optimizer
        self.lazy_rows = flag(lazy_rows, "lazy_rows")
        self._has_warned = self._is_used_once = False
        self._compressed: dict[Compressor, CompressedSum] = {}
        # A Keras optimizer has one set of slots and one count of steps, for all callers.
        self._rules: list[OptimizerRule] = optimizer.__dict__.setdefault("_simdist_rules", []) if is_keras_optimizer(optimizer) else []

    def build(self, variables: Iterable[AnyVariable]) -> None:
        """Create the optimizer's slots now, and not in the first step.

        A `LossScaleOptimizer` needs that in a step of one's own; so does a state that is to be loaded before training.

        Args:
            variables: all that the optimizer will change.

        Example:
            >>> import optax
            >>> import simdist as sd
            >>> with sd.OneDeviceStrategy().scope():
            ...     v, optimizer = sd.Variable(1.0), sd.Optimizer(optax.sgd(0.1))
            >>> optimizer.build([v])
            >>> optimizer.iterations
            0
        """
        given = variables_of(variables)
        if not given:
            raise InvalidArgumentError("build was given no variables. Give all that the optimizer will change.")
        self._rule(given).state.build()

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[ArrayLike | None, AnyVariable]], skip_gradients_aggregation: bool = False
    ) -> None:
        """Update variables by their gradients; in a step, an operation of the program. Outside of every step it is a step of its own.

        Called by a replica, it first adds up the gradients of all replicas. Where the gradient of a Keras variable is its new value
        (``overwrite_with_gradient``, in float8 layers) it is assigned: the maximum of those of all replicas.

        Args:
            grads_and_vars: pairs (gradient, variable), both of one shape (p...); a gradient of None leaves its variable as it is.
            skip_gradients_aggregation: True where the gradients are those of all replicas already; default False. A step in which they
                differ is refused where it is traced for several replicas.

        Raises:
            FailedPreconditionError: called in a plain function that a coordinator has scheduled, in rounds, after a step that has changed
                variables.
            InvalidArgumentError: a gradient of another shape than its variable, or of numbers that its dtype cannot hold (digits in a
                variable of whole numbers, an imaginary part in one of floats); two of one variable; or new values that no maximum of all
                combines: with an Optax transformation, `sync_every`, `backup_workers`, or several workers of parameter servers.
            TypeError: not pairs, or an array in the place of a variable.
        """
        tracer, skip_gradients_aggregation = active_tracer(), flag(skip_gradients_aggregation, "skip_gradients_aggregation")
        if tracer is None:
            pairs = _pairs(grads_and_vars)
            return self._applied_once(pairs, skip_gradients_aggregation)
        everything = [(gradient, as_variable(variable)) for gradient, variable in _pairs(grads_and_vars)]
        pairs = [(gradient, variable) for gradient, variable in everything if gradient is not None]
        pairs.sort(key=lambda pair: is_overwritten(pair[1]))  # these last: numbers of tables count the others
        variables = [variable for _, variable in pairs]
        _require_one_each(variables)
        # A Keras optimizer is built for all that it is given, as in Keras; a transformation for what has gradients, or for that of build().
        state_of = [variable for _, variable in everything] if is_keras_optimizer(self.wrapped) else variables
        given = [_checked(gradient, variable) for gradient, variable in pairs]
        count = sum(not is_overwritten(variable) for variable in variables)
        gradients, new_values, has_scale = given[:count], given[count:], True
        require_overwritable(tracer, self.wrapped, variables[count:])
        if tracer.in_replica and tracer.num_replicas > 1 and not skip_gradients_aggregation:
            gradients, has_scale = self._summed(tracer, gradients, variables[:count])
            new_values = maxima_over_replicas(tracer, new_values)
        elif tracer.num_replicas == 1:  # also where the step is given to `strategy.run`, or runs without it
            gradients = with_rows_apart(tracer, gradients, variables[:count])
        if variables:
            rule = self._rule(state_of)
            require_counting(rule, variables)
            rule.is_used_once = self._is_used_once
            operands = self._clipped(gradients, new_values, variables[0], has_scale)
            if self.lazy_rows and not self._has_warned:
                self._has_warned = self._warned(tracer, rule, variables, [*gradients, *new_values], operands)
            tracer.update(rule, variables, operands)

    def _warned(
        self, tracer: Tracer, rule: OptimizerRule, variables: Sequence[Variable], sums: Sequence[jax.Array], operands: Sequence[jax.Array]
    ) -> bool:
        """Say for which tables `lazy_rows` has no effect; return whether there are any. Of some the rule has said it."""
        whole = [variable.name for variable in variables if variable.ref() in tracer.whole_tables and not rule.has_named(variable)]
        if whole or not (tracer.in_replica or tracer.num_replicas == 1) or policy_of(tracer).reads_rows:
            return warn_of_whole_tables(whole)
        changed = [variable for variable, total, operand in zip(variables, sums, operands, strict=True) if total is not operand]
        return warn_of_changed_sums([variable.name for variable in changed if variable.ref() in tracer.tables])

    def _applied_once(self, pairs: Sequence[tuple[ArrayLike | None, AnyVariable]], skip_gradients_aggregation: bool) -> None:
        self._is_used_once = True
        try:
            current_scope().eagerly(lambda: self.apply_gradients(pairs, skip_gradients_aggregation), "apply_gradients")
        finally:
            self._is_used_once = False
            for rule in self._rules:
                rule.is_used_once = False

    def _rule(self, variables: Sequence[Variable]) -> OptimizerRule:
        """The rule for these variables: of a Keras optimizer the only one, for all that it was built with.

        Raises:
            InvalidArgumentError: a Keras optimizer was built for others; or a transformation has a state for some of them, and cannot go
                on with it.
        """
        wanted = set(map(id, variables))
        for rule in self._rules:
            known = set(map(id, rule.variables))
            if wanted == known or (is_keras_optimizer(self.wrapped) and wanted <= known):
                return rule
            if wanted & known and not is_keras_optimizer(self.wrapped):
                require_part(rule, variables)
                return rule
        if is_keras_optimizer(self.wrapped) and self.wrapped.built:
            variables = _built_for(self.wrapped, variables)
        holder = None if is_keras_optimizer(self.wrapped) else self  # a transformation is a tuple, which cannot be waited for
        self._rules.append(OptimizerRule(self.wrapped, variables, self.lazy_rows, holder))
        return self._rules[-1]

    def _summed(self, tracer: Tracer, gradients: list[jax.Array], variables: list[Variable]) -> tuple[list[jax.Array], bool]:
        """The sums over the replicas, and whether those of a scaled loss have its scale yet."""
        policy = policy_of(tracer)
        compression = policy.compression
        if compression is None or policy.local:
            return summed_over_replicas(tracer, gradients, variables), True
        if compression not in self._compressed:
            self._compressed[compression] = CompressedSum(compression)
        compressed = self._compressed[compression]
        if is_keras_optimizer(self.wrapped) and is_scaling(self.wrapped) and compressed.keeps_rests(variables):
            gradients = without_scale(self.wrapped, gradients)
            (overflows,) = tracer.collective("all_reduce", [1.0 - all_finite(gradients)], label="finite")
            finite = overflows == 0
            sums = compressed.sums(tracer, [jnp.where(finite, own, 0) for own in gradients], variables, finite)
            return [jnp.where(finite, total, jnp.nan) for total in sums], False
        return compressed.sums(tracer, gradients, variables), True

    def _clipped(self, gradients: list[jax.Array], new_values: list[jax.Array], variable: Variable, has_scale: bool) -> list[jax.Array]:
        """The gradients, unscaled and clipped, and then the new values as they are.

        Gradients that are accumulated, or averaged over workers, are clipped when they are complete.
        """
        optimizer = self.wrapped
        if not is_keras_optimizer(optimizer):
            return gradients
        clips_later = clips_with_update(optimizer, variable)
        if is_scaling(optimizer):
            return unscaled(optimizer, gradients, clips_later, has_scale, new_values)
        scale = optimizer.loss_scale_factor
        if scale is not None:
            gradients = [gradient / scale for gradient in gradients]
        return [*(gradients if clips_later else clipped(optimizer, gradients)), *new_values]

    def saved_state(self) -> dict[str, Variable]:
        """The state of an Optax transformation as variables of whole values, by path; that of a Keras optimizer is its own."""
        if is_keras_optimizer(self.wrapped):
            return {}
        return {f"{number}/{path}": variable for number, rule in enumerate(self._rules) for path, variable in rule.state.saved().items()}

    @property
    def rules(self) -> list[list[Variable]]:
        """The sets of variables that have a state of their own, in the order of `saved_state`."""
        return [rule.variables for rule in self._rules]

    @property
    def is_built(self) -> bool:
        """Whether the state of an Optax transformation exists, for the variables that it has changed."""
        return bool(self._rules) and all(rule.state.is_built for rule in self._rules)

    @property
    def iterations(self) -> KerasVariable | ArrayLike:
        """The number of updates; each set of variables of an Optax transformation counts by itself, and this is the sum.

        What was restored counts at once, also where the variables are not known yet: they are those of `build`, or of the first step.

        Raises:
            FailedPreconditionError: a step asks before there is a count, or while one that was restored waits for its variables.
        """
        if is_keras_optimizer(self.wrapped):
            return self.wrapped.iterations
        waiting = [int(count) for path, count in waiting_values(self).items() if is_count(path)]
        if waiting and active_tracer() is not None:
            raise FailedPreconditionError(
                f"The count of steps of the optimizer was restored ({sum(waiting)}), and the step would have it as a constant, as it waits "
                "for the variables of the optimizer. Call its build() with the variables before the step."
            )
        return sum(waiting) + sum(rule.state.count() for rule in self._rules)


def _require_one_each(variables: Sequence[Variable]) -> None:
    """Refuse two gradients of one variable: only one of them would count."""
    count = Counter(map(id, variables))
    twice = [variable.name for variable in variables if count[id(variable)] > 1]
    if twice:
        raise InvalidArgumentError(
            f"apply_gradients was given two gradients of {', '.join(dict.fromkeys(twice))}. Add them, or apply them one after the other."
        )


def _pairs(given: Any) -> list[tuple[ArrayLike | None, AnyVariable]]:
    """What `apply_gradients` was given, as a list.

    Raises:
        TypeError: it is no iterable of pairs.
    """
    items: list[Any] = list(given) if isinstance(given, Iterable) and not is_array(given) else [given]
    for item in items:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise TypeError(
                f"apply_gradients takes pairs (gradient, variable); got {type(item).__name__} in place of a pair. Write "
                "apply_gradients(zip(gradients, variables))."
            )
    return items


def _checked(gradient: ArrayLike, variable: Variable) -> jax.Array:
    """A gradient as an array of its variable's dtype; among floats, a narrower one may make it infinite, as loss scaling expects.

    Raises:
        InvalidArgumentError: it has another shape than its variable, or numbers that no such dtype can hold.
    """
    gradient = numbers_for_jax(gradient, f"The gradient of {variable.name!r}")
    is_float = jnp.issubdtype(variable.dtype, jnp.floating) and not jnp.issubdtype(jnp.asarray(gradient).dtype, jnp.complexfloating)
    fits = is_float or jnp.issubdtype(variable.dtype, jnp.complexfloating)
    array = jnp.asarray(gradient if fits else canonical(gradient, f"The gradient of {variable.name!r}", variable.dtype), variable.dtype)
    if array.shape != variable.shape:
        raise InvalidArgumentError(f"The gradient of {variable.name!r} has shape {array.shape}, and the variable {variable.shape}.")
    return array


def renew_rules(optimizer: KerasOptimizer) -> None:
    """Let steps go on with what a Keras optimizer is now, where it has taken some."""
    rules: list[OptimizerRule] = vars(optimizer).get("_simdist_rules", [])
    for rule in rules:
        rule.state.renew()


def variables_of(given: Iterable[AnyVariable]) -> list[Variable]:
    """Several variables, of a list or a generator; what is a text, a dict or a set is refused by its first member.

    Raises:
        TypeError: no list, or something in it is no variable.
    """
    several = given if isinstance(given, (str, Mapping, Set)) else listed(given, "variables", "variables")
    return [as_variable(variable) for variable in several]


def as_variable(variable: AnyVariable) -> Variable:
    """The `sd.Variable` behind a Keras variable, or the variable itself.

    Raises:
        InvalidArgumentError: made outside a strategy's scope.
        TypeError: no variable: an array, for example the value of one, or a gradient; a list of them, or the key of a dict.
    """
    own = own_variable(variable)
    if own is None and is_array(variable):
        raise TypeError(
            f"Expected a variable, and got an array of {variable.dtype.name} of shape {tuple(variable.shape)}. Give the variable itself in "
            "place of its value; apply_gradients takes pairs (gradient, variable): zip(gradients, variables)."
        )
    if own is None and not hasattr(variable, "assign"):
        raise TypeError(
            f"Expected a variable, and got {variable!r:.80}, a {type(variable).__name__}. Give a list of variables; those of a dict, or of "
            "another structure, are jax.tree.leaves(variables)."
        )
    if own is None:
        raise InvalidArgumentError(
            f"The variable {shown_name(variable)!r} was made outside strategy.scope(), so it belongs to no strategy. "
            "Make the model, the optimizer and the metrics inside `with strategy.scope():`. What makes variables of a model that exists "
            "needs it, too: call enable_lora / quantize inside `with strategy.scope():`."
        )
    return own


def _built_for(optimizer: KerasOptimizer, variables: Sequence[Variable]) -> Sequence[Variable]:
    """The variables that a Keras optimizer was built with, these among them."""
    built = [own_variable(variable) for variable in trained_variables(optimizer)]
    unknown = [variable.name for variable in variables if not any(variable is own for own in built)]
    if unknown or None in built:
        names = ", ".join(str(shown_name(variable)) for variable in trained_variables(optimizer)) or "no variables"
        raise InvalidArgumentError(
            f"{type(optimizer).__name__} was built for {names}, and is now to change {', '.join(unknown) or 'others'}. Apply "
            "it to all variables from the first step on, call its build() with all of them, or make a new optimizer."
        )
    return [variable for variable in built if variable is not None]
