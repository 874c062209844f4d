"""Replicas that have no rows of a batch: what happens where the code of a model cannot be traced for none.

A batch with fewer rows than replicas leaves some of them without any. They take the step nevertheless, as all replicas take part in its
collectives, and most code gives results of no rows for no rows. Code that divides by their number, or looks for the largest of them,
fails. The order of trials:

1. The step is traced with no rows. What can be traced so keeps its program.
2. Where that fails, it is traced once more, with a row of zeros in the place of those that are missing. What that row gives counts
   nowhere: gradients and metrics are zeros, outputs are cut off, and layers remember only what does not depend on rows.
3. Where that row would count, in a sum over the replicas, or where the trace fails again, the batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.errors import InvalidArgumentError, SimdistError
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.tracing import active_tracer

__all__ = ["MissingRows", "num_rows_of", "with_rows"]

Shapes: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]


def num_rows_of(data: Tree) -> int:
    """The rows of a replica's part of a batch."""
    return jax.tree_util.tree_leaves(data)[0].shape[0]


def with_rows(data: Tree) -> Tree:
    """A batch with rows: where a replica has none, one of zeros."""

    def filled(leaf: jax.Array) -> jax.Array:
        return leaf if not leaf.shape or leaf.shape[0] else jnp.zeros((1, *leaf.shape[1:]), leaf.dtype)

    return jax.tree_util.tree_map(filled, data)


@dataclass(frozen=True)
class _Failure:
    """A trace without rows that has failed, with what there is to say of it."""

    error: Exception
    shapes: Shapes
    text: str


class MissingRows:
    """What one step function knows of the parts of batches that have no rows, and for which its code fails.

    Args:
        code: what is traced, for errors: "the layers of 'model'".
        may_stand_in: whether the step knows what to do with a row of zeros; False where only its code knows what becomes of rows.
    """

    def __init__(self, code: str, may_stand_in: bool = True) -> None:
        self.code = code
        self.may_stand_in = may_stand_in
        self._filled: set[Shapes] = set()  # parts that get a row of zeros
        self._failure: _Failure | None = None

    def watch(self, step: StepFunction) -> StepFunction:
        """Let the traces of a step that fail for want of rows be tried again; the same step."""
        step.retraces_after = self._is_traced_again
        return step

    def are_filled(self, data: Tree) -> bool:
        """Whether a part of a batch has no rows, and is to get one of zeros."""
        return bool(self._filled) and _shapes(data) in self._filled

    @contextmanager
    def tried(self, data: Tree, rows: int | None = None) -> Iterator[None]:
        """Note where the code inside fails for a part of a batch without rows; `rows` says how many, if its first array does not."""
        try:
            yield
        except (SimdistError, StopIteration):
            raise
        except Exception as error:
            if not (num_rows_of(data) if rows is None else rows):
                self._failure = _Failure(error, _shapes(data), _who_has_none())
            raise

    @contextmanager
    def counting_nowhere(self, data: Tree) -> Iterator[None]:
        """What is traced inside has a row of zeros; nothing of it may be combined with the other replicas.

        Raises:
            InvalidArgumentError: something is.
        """
        tracer = active_tracer()
        assert tracer is not None
        before = len(tracer.collectives)
        with self.tried(data):
            yield
        if len(tracer.collectives) > before:
            what = tracer.collectives[before].label or tracer.collectives[before].kind
            raise InvalidArgumentError(
                self._refusal(_who_has_none(), f"A row of zeros cannot stand for them, as replicas share what they compute ({what}).")
            )

    def _is_traced_again(self, error: Exception) -> bool:
        """Whether a step whose trace has failed goes otherwise the next time.

        Raises:
            InvalidArgumentError: it has failed because a replica has no rows, and there is nothing else to try.
        """
        failure, self._failure = self._failure, None
        if failure is None or failure.error is not error:
            return False
        if not self.may_stand_in:
            raise InvalidArgumentError(self._refusal(failure.text, _said(error))) from error
        if failure.shapes in self._filled:
            raise InvalidArgumentError(self._refusal(failure.text, f"It fails with a row of zeros, too: {_said(error)}")) from error
        self._filled.add(failure.shapes)
        return True

    def _refusal(self, who: str, why: str) -> str:
        return (
            f"{who}, and {self.code} cannot be traced without rows. {why} Drop the remainder of the data (batch(n, "
            "drop_remainder=True)), pad it so that each replica has a row, or write the code so that it takes 0 rows: "
            "keras.ops.reshape(x, (-1, n)) with the number n in place of (keras.ops.shape(x)[0], -1)."
        )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'without a text'}".rstrip(".") + "."


def _who_has_none() -> str:
    tracer = active_tracer()
    assert tracer is not None
    rows = max(tracer.global_rows.sizes_of(0), default=0)
    of_all = f" ({rows} {'row' if rows == 1 else 'rows'} for {tracer.num_replicas} replicas)" if rows else ""
    return f"Replica {tracer.replica_rank} has no rows of this batch{of_all}"


def _shapes(data: Tree) -> Shapes:
    return tuple([(tuple(leaf.shape), str(leaf.dtype)) for leaf in jax.tree_util.tree_leaves(data)])
