"""`RemoteValue`: the result of a closure that may not have run yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np

from simdist.runtime.base import Engine
from simdist.runtime.work import StepResult

__all__ = ["RemoteValue", "Result"]


class Result:
    """What one closure gives: arrays, or a plain value, or an error.

    Args:
        engine: computes the arrays.
        number: of the closure.
    """

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine = engine
        self.number = number
        self.ready = engine.promise()
        self.stepped: StepResult | None = None
        self.plain: Any = None
        self.error: BaseException | None = None

    def take(self, value: Any) -> None:
        """What the worker has replied."""
        if isinstance(value, StepResult):
            self.stepped = value
        else:
            self.plain = value

    def wait(self) -> None:
        """Block until the closure has ended; raise its error if it has one."""
        if not self.ready.is_open:
            self.ready.wait(f"closure {self.number}")
        if self.error is not None:
            raise self.error

    def value(self) -> Any:
        """The whole result, with numpy arrays."""
        self.wait()
        if self.stepped is None:
            return self.plain
        arrays = [np.asarray(array) for array in self.engine.arrays([self.stepped.bundle])[0]]
        if arrays:
            self.engine.trace.observed()
        return self.stepped.linked.rebuild(arrays)


class RemoteValue:
    """One leaf of a closure's result. Made by `ClusterCoordinator.schedule`.

    Its `fetch` waits for the closure; looking at the number takes no virtual time.
    """

    def __init__(self, result: Result, pick: Callable[[Any], Any] = lambda value: value) -> None:
        self._result = result
        self._pick = pick

    def fetch(self) -> Any:
        """The value as a numpy array (or what the function returned); waits until it is there.

        Raises:
            CancelledError: the closure was dropped because another one failed.
            Exception: the closure's own error, at each call.
        """
        return self._pick(self._result.value())

    def get(self) -> Any:
        """The value as a JAX array on the chief; waits until it is there."""
        return jax.tree_util.tree_map(jax.numpy.asarray, self.fetch())

    @property
    def state(self) -> Literal["pending", "ready", "failed"]:
        """How its closure stands now; asking neither waits nor computes a number."""
        if not self._result.ready.is_open:
            return "pending"
        return "ready" if self._result.error is None else "failed"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "A RemoteValue cannot be pickled or copied: a simulated cluster lives in this process. Take its number, fetch(), which "
            "can, and cluster.trace for what happened."
        )

    def __float__(self) -> float:
        return float(self.fetch())

    def __repr__(self) -> str:
        return f"RemoteValue(closure {self._result.number}, {self.state})"
