"""One context of MLIR for many lowerings of a thread.

JAX makes a context for each lowering, and loads nine dialects into it: a third of the time of a small lowering, and a tenth of that of
many tests. What is lowered is the same. A context keeps the types and constants of all its modules, so it is not kept for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from jax._src.interpreters import mlir

__all__ = ["LOWERINGS", "share_contexts"]

LOWERINGS = 100
"""How many lowerings have one context."""


def share_contexts() -> None:
    """Let JAX take the context of the lowering before; where a version of JAX makes contexts by another function, nothing changes."""
    make = getattr(mlir, "make_ir_context", None)
    if make is not None:
        mlir.make_ir_context = _shared(make)


def _shared(make: Callable[[], Any]) -> Callable[[], Any]:
    kept = threading.local()

    @wraps(make)
    def make_ir_context() -> Any:
        kept.left = getattr(kept, "left", 0) - 1
        if kept.left < 0:
            kept.context, kept.left = make(), LOWERINGS - 1
        return kept.context

    return make_ir_context
