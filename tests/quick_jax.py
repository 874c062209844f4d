"""What JAX does again for each lowering and for each error, done once: a tenth of the time of many tests, and more in an old process.

- It makes a context of MLIR for each lowering, and loads nine dialects into it. What is lowered is the same in the context of the
  lowering before. A context keeps the types and constants of all its modules, so it is not kept for ever.
  Since 0.12 JAX keeps one by itself.
- It asks the file system about each frame of a traceback: whether the file is one of JAX.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from jax._src import traceback_util
from jax._src.interpreters import mlir

__all__ = ["KEEPS_CONTEXTS", "LOWERINGS", "quicken"]

LOWERINGS = 100
"""How many lowerings have one context."""
KEEPS_CONTEXTS = hasattr(mlir, "_thread_local_context")
"""Whether this JAX keeps contexts by itself."""


def quicken() -> None:
    """Do both once; where a version of JAX does them by other functions, or by itself, nothing changes."""
    for module, name, quick in ((mlir, "make_ir_context", _shared), (traceback_util, "_path_starts_with", cache)):
        if hasattr(module, name) and not (module is mlir and KEEPS_CONTEXTS):
            setattr(module, name, quick(getattr(module, name)))


def _shared(make: Callable[[], Any]) -> Callable[[], Any]:
    """Make a context for a thread when it has none, or when its own has had its lowerings; a lowering inside of another one has its own.

    MLIR would put the module of the inner one into that of the outer one, which it finds by the context.
    """
    kept = threading.local()

    @wraps(make)
    def make_ir_context() -> Any:
        if _is_lowering():
            return make()
        kept.left = getattr(kept, "left", 0) - 1
        if kept.left < 0:
            kept.context, kept.left = make(), LOWERINGS - 1
        return kept.context

    return make_ir_context


def _is_lowering() -> bool:
    try:
        return mlir.ir.Context.current is not None
    except ValueError:
        return False
