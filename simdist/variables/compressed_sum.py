"""The compressed sum of the replicas' gradients; each replica keeps the residual that it has not sent yet.

Messages that can be added travel by an all-reduce, others by an all-gather (`simdist.collectives.compression`). PowerSGD
needs two all-reduces, one for each factor. What a replica keeps from step to step is a companion of the variable (ON_READ, never
combined), so it is saved with it, and a step that fails leaves it as it was.

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jax

from simdist.collectives.compression import Compressor
from simdist.collectives.power_sgd import PowerSGD
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree, TreeStructure
from simdist.program.operations import Reference
from simdist.program.saved_parts import built
from simdist.program.tracing import Tracer
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.companions import keep_beside
from simdist.variables.variable import Variable

__all__ = ["CompressedSum"]

State = Tree
"""What a compressor remembers of one gradient: an array, or several."""


class CompressedSum:
    """Sums of gradients under one compressor; made once for each optimizer, because it keeps the residuals.

    Args:
        compressor: from `simdist.collectives.compression`, or `PowerSGD`.

    Raises:
        InvalidArgumentError: something else.
    """

    def __init__(self, compressor: object) -> None:
        self.compressor = _checked(compressor)
        self._states: dict[Reference, tuple[TreeStructure, list[Variable]]] = {}

    def keeps_rests(self, variables: Sequence[Variable]) -> bool:
        """Whether replicas keep for later what they have not sent of these gradients."""
        with jax.ensure_compile_time_eval():
            return any(jax.tree_util.tree_leaves(self.compressor.initial_state(own.shape, own.dtype)) for own in variables)

    def sums(
        self, tracer: Tracer, gradients: Sequence[jax.Array], variables: Sequence[Variable], counts: jax.Array | None = None
    ) -> list[jax.Array]:
        """The sums of the replicas' compressed gradients.

        Args:
            tracer: of the step.
            gradients: of this replica, one (p...) for each variable.
            variables: those of the gradients, of the same shapes (p...).
            counts: whether the step counts, alike on all replicas: otherwise what they keep stays as it was. Default: it does.

        Returns:
            The sums over the r replicas, of the same shapes (p...).
        """
        new = [variable for variable in variables if variable.ref() not in self._states]
        states = [self._state(variable, tracer) for variable in variables]
        if new:
            with jax.ensure_compile_time_eval():
                built(new[0].placement.store.strategy)
        if isinstance(self.compressor, PowerSGD):
            sums, new_states = _low_rank(self.compressor, tracer, list(gradients), states)
        else:
            sums, new_states = self._messages(tracer, list(gradients), states)
        for variable, state in zip(variables, new_states, strict=True):
            for own, value in zip(self._states[variable.ref()][1], jax.tree_util.tree_leaves(state), strict=True):
                tracer.update("assign", [own], [value if counts is None else jax.numpy.where(counts, value, tracer.read(own))])
        return sums

    def _state(self, variable: Variable, tracer: Tracer) -> State:
        """The state of this replica's compressor for a variable."""
        if variable.ref() not in self._states:
            with jax.ensure_compile_time_eval():
                leaves, structure = jax.tree_util.tree_flatten(self.compressor.initial_state(variable.shape, variable.dtype))
                self._states[variable.ref()] = (structure, [self._residual(variable, number) for number in range(len(leaves))])
        structure, own = self._states[variable.ref()]
        return jax.tree_util.tree_unflatten(structure, [tracer.read(part) for part in own])

    def _residual(self, variable: Variable, number: int) -> Variable:
        """A leaf of the state of a replica."""
        initial_state, shape, dtype = self.compressor.initial_state, variable.shape, variable.dtype
        return keep_beside(
            variable,
            f"residual_{len(variable.companions)}",
            lambda: jax.tree_util.tree_leaves(initial_state(shape, dtype))[number],
            trainable=False,
            synchronization=VariableSynchronization.ON_READ,
            aggregation=VariableAggregation.NONE,
        )

    def _messages(self, tracer: Tracer, gradients: list[jax.Array], states: list[State]) -> tuple[list[jax.Array], list[State]]:
        made = [self._message(gradient, state) for gradient, state in zip(gradients, states, strict=True)]
        leaves, structure = jax.tree_util.tree_flatten([message for message, _ in made])
        if self.compressor.collective == "all_reduce":
            received = [tracer.collective("all_reduce", leaves, label="gradients")]
        else:
            received = tracer.collective("all_gather", leaves, label="gradients")
        sums: list[jax.Array] = []
        for part in received:
            messages = jax.tree_util.tree_unflatten(structure, part)
            wholes = [self._whole(message, gradient) for message, gradient in zip(messages, gradients, strict=True)]
            sums = [total + whole for total, whole in zip(sums, wholes, strict=True)] if sums else wholes
        return sums, [state for _, state in made]

    def _message(self, gradient: jax.Array, state: State) -> tuple[Tree, State]:
        """The message of a gradient, and the state after it, which the compressor has to give in the form that it began with."""
        made = cast("object", self.compressor.compress(gradient, state))
        name = f"{type(self.compressor).__name__}.compress"
        if not isinstance(made, tuple) or len(cast("tuple[Any, ...]", made)) != 2:
            raise InvalidArgumentError(f"{name}(gradient, state) returned {made!r}; expected a pair: a message, and the state after it.")
        message, after = cast("tuple[Tree, State]", made)
        if _shapes(after) != _shapes(state):
            raise InvalidArgumentError(
                f"{name} returned a state of arrays of the shapes {_shapes(after)}; expected those of initial_state: {_shapes(state)}."
            )
        return message, after

    def _whole(self, message: Tree, gradient: jax.Array) -> jax.Array:
        """The gradient that a message stands for."""
        whole = self.compressor.decompress(message, gradient.shape, gradient.dtype)
        if jax.numpy.shape(whole) != gradient.shape:
            raise InvalidArgumentError(
                f"{type(self.compressor).__name__}.decompress(message, {gradient.shape}) returned an array of shape "
                f"{jax.numpy.shape(whole)}; expected the gradient's shape."
            )
        return whole


NEEDS = ("collective", "initial_state", "compress", "decompress", "bytes_on_wire")


def _checked(compressor: object) -> Compressor:
    if isinstance(compressor, type) or not isinstance(compressor, Compressor):  # a class has the methods, too
        missing = [name for name in NEEDS if not hasattr(compressor, name)]
        lacks = f" It has no {', '.join(missing)}." if 0 < len(missing) < len(NEEDS) else ""
        raise InvalidArgumentError(
            f"compression={compressor!r} is no compressor; use for example TopK(fraction=0.01), Fp16() or PowerSGD(rank=2).{lacks}"
        )
    if compressor.collective not in ("all_reduce", "all_gather"):
        raise InvalidArgumentError(
            f"{type(compressor).__name__}.collective={compressor.collective!r} is not known. "
            "Write 'all_reduce' where messages can be added, otherwise 'all_gather'."
        )
    return compressor


def _shapes(state: State) -> list[tuple[int, ...]]:
    """Of the arrays of a state."""
    return [jax.numpy.shape(leaf) for leaf in jax.tree_util.tree_leaves(state)]


def _low_rank(power: PowerSGD, tracer: Tracer, gradients: list[jax.Array], states: list[State]) -> tuple[list[jax.Array], list[State]]:
    """Both factors are means over the replicas; the sum is as many times the mean as there are replicas."""
    count = tracer.num_replicas
    lefts = [power.left(gradient, state) for gradient, state in zip(gradients, states, strict=True)]
    lefts = [total / count for total in tracer.collective("all_reduce", lefts, label="gradients")]
    rights = [power.right(g, state, left) for g, state, left in zip(gradients, states, lefts, strict=True)]
    matrices = [number for number, gradient in enumerate(gradients) if gradient.ndim >= 2]
    means = dict(zip(matrices, tracer.collective("all_reduce", [rights[n][1] for n in matrices], label="gradients"), strict=True))
    sums: list[jax.Array] = []
    new: list[State] = []
    for number, (gradient, state) in enumerate(zip(gradients, states, strict=True)):
        columns, right = rights[number]
        mean, after = power.finish(gradient, state, columns, means[number] / count if number in means else right)
        sums.append(mean * count)
        new.append(after)
    return sums, new
