"""The moment at which a layer or a model is built: its variables take the values that waited for them, of a checkpoint for example.

Keras may build a model without running it, in a scope in which nothing can be assigned; then they take them when that scope is left.
"""

from __future__ import annotations

from collections.abc import Callable

from keras.src.backend.common import stateless_scope
from keras.src.ops.operation import Operation

from simdist.program.saved_parts import built

__all__ = ["install"]


def _built(operation: Operation, original: Callable[[Operation], object] = Operation._post_build) -> None:
    """A layer or a model has its variables: those take their values that waited for them, as soon as variables can be assigned."""
    original(operation)
    if stateless_scope.in_stateless_scope():
        _built_in_scopes.append(operation)
    else:
        built(operation)


_built_in_scopes: list[Operation] = []


def _left(
    self: stateless_scope.StatelessScope, *error: object, original: Callable[..., object] = stateless_scope.StatelessScope.__exit__
) -> None:
    """Keras' scope is left in which a model is built without running it."""
    original(self, *error)
    if not stateless_scope.in_stateless_scope() and _built_in_scopes:
        operations = list(_built_in_scopes)
        _built_in_scopes.clear()
        for operation in operations if error[0] is None else ():
            built(operation)


def install() -> None:
    """Let Keras say when a layer is built. To be called once."""
    Operation._post_build = _built  # pyright: ignore[reportAttributeAccessIssue]
    stateless_scope.StatelessScope.__exit__ = _left
