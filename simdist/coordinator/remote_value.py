"""`RemoteValue`: the result of a closure that may not have run yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from simdist.program.ledger import Ledger
from simdist.program.values import Bundle
from simdist.simulation.kernel import Clock

__all__ = ["RemoteValue", "Result"]


class Result:
    """What one closure gives: a bundle of arrays, or a plain value, or an error."""

    def __init__(self, clock: Clock, ledger: Ledger, number: int, observed: Callable[[], None]) -> None:
        self.clock = clock
        self.ledger = ledger
        self.observed = observed
        self.number = number
        self.ready = clock.gate()
        self.bundle: Bundle | None = None
        self.rebuild: Callable[[list[Any]], Any] | None = None
        self.plain: Any = None
        self.error: BaseException | None = None

    def wait(self) -> None:
        """Block until the closure has ended; raise its error if it has one."""
        if not self.ready.is_open:
            self.clock.wait(self.ready, f"closure {self.number}")
        if self.error is not None:
            raise self.error

    def value(self) -> Any:
        """The whole result, with numpy arrays."""
        self.wait()
        if self.bundle is None or self.rebuild is None:
            return self.plain
        arrays = [np.asarray(array) for array in self.ledger.arrays(self.bundle)]
        if arrays:
            self.observed()
        return self.rebuild(arrays)


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
        result = self._result
        state = "pending" if not result.ready.is_open else "failed" if result.error is not None else "ready"
        return f"RemoteValue(closure {result.number}, {state})"
