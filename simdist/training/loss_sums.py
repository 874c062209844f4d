"""Losses that are sums over rows: which of the compiled ones are, and what a sum counts.

The loss of a replica is weighed by its part of the global batch, as fits a mean over its rows. A sum adds up by itself, so it is divided
by that weight. Of a loss of Keras, its reduction says whether it is a sum. A loss of the user's own is tried: a sum is twice as large for
twice the rows. What the user's own code computes outside of such a loss is left as it is, and a sum there is reported.

Invariant: a value changes only where `compile` was given its loss. Metrics, layers, and losses inside of losses keep theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from keras.src.trainers import compile_utils

from simdist.errors import LossSumWarning
from simdist.program.arrays import HostArray, Tree
from simdist.program.tracing import Tracer, active_tracer
from simdist.training.keras_model import Tensor

__all__ = ["GlobalBatch", "global_batch", "install", "warn_of_a_sum"]

LossFunction: TypeAlias = Callable[[Tree, Tree, Tree], Tensor]
TRIED_ROWS = 2
TRIED_RANGES = ((0.2, 0.8), (-9.0, 9.0))  # of probabilities, and of anything


@dataclass
class GlobalBatch:
    """What is known of the global batch while a loss of one of several replicas is computed.

    Attributes:
        part: of its rows that this replica has; None where losses are those of one device.
        in_compiled_loss: whether a loss that `compile` was given is being computed.
    """

    part: float | None = None
    in_compiled_loss: bool = False


global_batch = GlobalBatch()


class _CompiledLoss:
    """A loss that `compile` was given, as Keras calls it."""

    def __init__(self, loss: LossFunction) -> None:
        self.loss = loss
        self._known: dict[Hashable, bool] = {}  # by shapes: with run_eagerly the loss is called in each step

    def __call__(self, y_true: Tree, y_pred: Tree, sample_weight: Tree = None) -> Tensor:
        part = global_batch.part
        if part is None:
            return self.loss(y_true, y_pred, sample_weight)
        given = (y_true, y_pred, sample_weight)
        shapes = tuple([(tuple(leaf.shape), str(leaf.dtype)) for leaf in jax.tree_util.tree_leaves(given)])
        if shapes not in self._known:
            self._known[shapes] = self._is_sum(given)
        global_batch.in_compiled_loss = True
        try:
            value = self.loss(y_true, y_pred, sample_weight)
        finally:
            global_batch.in_compiled_loss = False
        return value / part if self._known[shapes] and part else value

    def _is_sum(self, given: Sequence[Tree]) -> bool:
        tracer = active_tracer()
        tried = None if is_of_keras(self.loss) or tracer is None else _tried(self.loss, given, tracer)
        return getattr(self.loss, "reduction", None) == "sum" if tried is None else tried


def is_of_keras(loss: LossFunction) -> bool:
    """Whether a loss is one of Keras' own, whose reduction says what it is."""
    return all(str(getattr(code, "__module__", "")).startswith("keras.") for code in (type(loss), getattr(loss, "fn", type(loss))))


def _tried(loss: LossFunction, given: Sequence[Tree], tracer: Tracer) -> bool | None:
    """Whether a loss is twice as large for twice the rows; None where it is neither that nor equal, or needs other values than these."""
    seeds, part, global_batch.part = dict(tracer.seeds), global_batch.part, None
    try:
        for low, high in TRIED_RANGES:
            with suppress(Exception), tracer.overlay({}), tracer.optional_reads(), jax.core.eval_context():
                once = _examples(given, low, high)
                # Compiled: code of the user sees placeholders, and prints no numbers that are none.
                compiled = jax.jit(lambda arrays: loss(*arrays))
                small, large = (float(np.asarray(compiled(_repeated(once, times)))) for times in (1, 2))
                if small and np.isfinite(small):
                    is_sum, is_mean = (np.isclose(large, times * small, rtol=1e-3, atol=0) for times in (2, 1))
                    return True if is_sum else False if is_mean else None
    finally:
        tracer.seeds, global_batch.part = seeds, part
    return None


def _examples(given: Sequence[Tree], low: float, high: float) -> list[Tree]:
    """Numbers of a few rows, of the given types; whole numbers are labels."""
    rng = np.random.default_rng(0)

    def example(leaf: Tensor) -> HostArray:
        shape = (TRIED_ROWS, *leaf.shape[1:])
        is_real = jnp.issubdtype(leaf.dtype, jnp.floating)
        return (rng.uniform(low, high, shape) if is_real else rng.integers(0, 2, shape)).astype(jnp.dtype(leaf.dtype))

    return [jax.tree_util.tree_map(example, tree) for tree in given]


def _repeated(arrays: Sequence[Tree], times: int) -> Sequence[Tree]:
    return jax.tree_util.tree_map(lambda array: jnp.concatenate([array] * times), arrays)


def warn_of_a_sum() -> None:
    """Say what a sum counts that code of the user's own computes in a step of several replicas."""
    warnings.warn(
        "A loss with reduction='sum' was called by code of your own in a step of several replicas. It gives the sum over the rows of one "
        "of them. If that is the loss of the step, it counts as a mean over these rows: divide it by keras.ops.shape(y)[0], or give the "
        "loss to compile, whose sums add up. In a metric that adds up, write reduction='none' and sum the result yourself.",
        LossSumWarning,
        stacklevel=3,
    )


def install() -> None:
    """Let Keras call the losses of `compile` so. Done once."""
    compiled = compile_utils.CompileLoss
    if getattr(compiled.build, "of_simdist", False):
        return
    call, build = compiled.call, compiled.build

    def built(self: compile_utils.CompileLoss, y_true: Tree, y_pred: Tree) -> None:
        build(self, y_true, y_pred)
        _take(self)

    def called(self: compile_utils.CompileLoss, y_true: Tree, y_pred: Tree, sample_weight: Tree = None) -> Tensor:
        if self.built:
            _take(self)  # it may have been built before this was installed
        return call(self, y_true, y_pred, sample_weight)

    built.of_simdist = True  # pyright: ignore[reportFunctionMemberAccess]
    compiled.build, compiled.call = built, called


def _take(compiled: compile_utils.CompileLoss) -> None:
    losses: list[Any] = compiled._flat_losses or []
    for number, entry in enumerate(losses):
        if not isinstance(entry.loss, _CompiledLoss):
            losses[number] = entry._replace(loss=_CompiledLoss(entry.loss))
