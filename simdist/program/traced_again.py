"""What a trace finds that has to be made before it: it ends there, that is made, and the Python of the step is traced from its beginning.

TensorFlow lets the first trace of a function make variables, and traces it once more. A step that has read ``model.trainable_variables``
before the model has any cannot go on either: what it holds is an empty list.

Invariant: what is made is made outside of every trace, so that it may wait for other tasks, and fail, as code before the step may.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TracedAgain"]


class TracedAgain(BaseException):
    """Ends a trace; no error, so that no code of the step, of Keras or of JAX handles it.

    Args:
        make: makes what the step needs.
    """

    def __init__(self, make: Callable[[], object]) -> None:
        super().__init__("a trace ends here, to be made again")
        self.make = make
