"""Lookups by Keras: `keras.ops.take` of an adopted variable along its first axis reads rows, as `sd.embedding_lookup` does.

`keras.layers.Embedding` calls it. Everything else that is taken from arrays goes to Keras as before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax.numpy as jnp
from keras.src import backend
from keras.src.backend.common import stateless_scope

from simdist.program.tracing import active_tracer
from simdist.training.adoption import AdoptedVariable, StepScope
from simdist.variables.embedding import follows_lookups, note_whole_table, traced_lookup

__all__ = ["install"]


def install() -> None:
    """Let lookups of adopted variables read rows. Done once."""
    if not hasattr(backend.numpy.take, "__wrapped__"):
        backend.numpy.take = _looking_up(backend.numpy.take)


def _looking_up(take: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(take)
    def taken(x: Any, indices: Any, axis: int | None = None) -> Any:
        tracer = active_tracer()
        if tracer is None or axis != 0 or not isinstance(x, AdoptedVariable) or x.simdist_variable is None:
            return take(x, indices, axis=axis)
        own, ids, scope = x.simdist_variable, jnp.asarray(indices), stateless_scope.get_stateless_scope()
        stands_in = scope is not None and not isinstance(scope, StepScope)
        if stands_in or not jnp.issubdtype(ids.dtype, jnp.integer):
            return take(x, indices, axis=axis)
        if not follows_lookups(tracer, own):
            note_whole_table(tracer, own, ids.size)
            return take(x, indices, axis=axis)
        return x.autocast(traced_lookup(tracer, own, ids))

    return taken
