"""`RemoteValue`: the result of a closure that may not have run yet.

Taught in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from functools import partial
from types import TracebackType
from typing import Any, Literal, NoReturn, cast

import jax
import numpy as np

from simdist.arguments import require_shallow
from simdist.coordinator.polling import Polling
from simdist.errors import NotFoundError
from simdist.runtime.base import Engine
from simdist.runtime.work import StepResult
from simdist.uncopied import Uncopied

__all__ = ["RemoteValue", "Result", "fetched"]

SUSPICIOUS = 30


class Result:
    """What one closure gives: arrays, or a plain value, or an error.

    Args:
        engine: computes the arrays.
        number: of the closure.
        require_end: raises if it cannot end, as far as the caller may wait for that; it is given the number.

    Attributes:
        ended: is called when the closure has ended.
    """

    def __init__(self, engine: Engine, number: int, require_end: Callable[[int], None] = lambda number: None) -> None:
        self.engine = engine
        self.number = number
        self.require_end = require_end
        self.ready = engine.promise()
        self.stepped: StepResult | None = None
        self.plain: object = None
        self.error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self.ended: Callable[[Result], None] | None = None
        self.polling: Polling | None = None  # of those who look at its state

    @property
    def state(self) -> Literal["pending", "ready", "failed"]:
        """How the closure stands now."""
        if not self.ready.is_open:
            return "pending"
        return "ready" if self.error is None else "failed"

    def take(self, value: object) -> None:
        """What the worker has replied."""
        if isinstance(value, StepResult):
            self.stepped = value
        else:
            self.plain = value

    def end(self, error: BaseException | None) -> None:
        """The closure has ended, well or with this error; the callers that wait go on."""
        self.error = error
        self._traceback = None if error is None else error.__traceback__
        self.ready.open()
        if self.ended is not None:
            self.ended(self)

    def wait(self) -> None:
        """Block until the closure has ended; raise its error if it has one."""
        if not self.ready.is_open:
            self.require_end(self.number)
            self.ready.wait(f"closure {self.number}")
        if self.error is not None:
            raise self.error.with_traceback(self._traceback)  # otherwise it would keep the frames of all who have asked

    def value(self) -> object:
        """The whole result, with numpy arrays."""
        self.wait()
        if self.stepped is None:
            return self.plain
        return self.stepped.value(self.engine)

    def of_each_step(self) -> list[Callable[[], object]]:
        """For each step of a closure that keeps all of them a function that gives its result, as `value`."""
        self.wait()
        assert self.stepped is not None
        return [partial(stepped.value, self.engine) for stepped in (*self.stepped.before, self.stepped)]


class RemoteValue(Uncopied, instead="Take its number, fetch(), which can, and cluster.trace for what happened."):
    """The result of a closure, or a part of it. Made by `ClusterCoordinator.schedule`.

    Its `fetch` waits for the closure; to look at the number takes no virtual time. What a step returns is known only when a worker has
    traced it: ``value[0]`` and ``value["loss"]`` are remote values of parts, and whether there are such parts is found at their fetch.

    Example:
        >>> import simdist as sd
        >>> with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        ...     coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        ...     value = coordinator.schedule(lambda: {"loss": 0.5})
        ...     print(value)
        ...     print(value.fetch())
        ...     print(value)
        ...     print(value["loss"], value["loss"].fetch())
        RemoteValue(closure 0, pending)
        {'loss': 0.5}
        RemoteValue(closure 0, ready)
        RemoteValue(closure 0['loss'], ready) 0.5
    """

    def __init__(self, result: Result, path: tuple[Any, ...] = ()) -> None:
        self._result = result
        self._path = path  # to the part that this is, from the whole

    def __getitem__(self, key: Any) -> RemoteValue:
        """The remote value of a part; waits for nothing.

        Args:
            key: as of the list, tuple, mapping or array that the function returns.
        """
        return RemoteValue(self._result, (*self._path, key))

    def __iter__(self) -> NoReturn:
        """Refuse: how many parts there are is known only when a worker has run the function.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"cannot unpack {self!r}, nor iterate over it: its parts are known when its function has run. Take one part, value[0] or "
            'value["loss"], or all of them, value.fetch().'
        )

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Refuse: an array of it would be one of an object, which stands for no number.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self!r} is no array: its number is there when its function has run. Wait for it with fetch().")

    def fetch(self) -> Any:
        """The value with numpy arrays (or what the function returned); waits until it is there.

        Raises:
            CancelledError: the closure was dropped because another one failed.
            FailedPreconditionError: it is called in this closure itself, or in one without which the closure's round cannot be complete.
            NotFoundError: the function has returned something without this part.
            Exception: the closure's own error, at each call.
        """
        value: Any = self._result.value()
        for depth, key in enumerate(self._path):
            try:
                value = value[key]
            except (LookupError, TypeError) as error:
                whole = RemoteValue(self._result, self._path[:depth])
                raise NotFoundError(
                    f"{whole!r} has no part [{key!r}]: {type(error).__name__}: {error}. Its function returned {_in_words(value)}."
                ) from error
        return value

    def get(self) -> Any:
        """The value with JAX arrays on the chief; waits until it is there.

        Raises:
            TypeError: there is something in it of which JAX has no array, such as a text.
        """
        return jax.tree_util.tree_map(self._on_chief, self.fetch())

    def _on_chief(self, leaf: Any) -> jax.Array:
        try:
            if not isinstance(leaf, (str, bytes)):
                return jax.numpy.asarray(leaf)
        except TypeError:
            pass
        raise TypeError(
            f"get() of {self!r} gives arrays of JAX, and there is none of {type(leaf).__name__}, which its function returned. Take "
            "fetch(), which gives what was returned."
        )

    @property
    def state(self) -> Literal["pending", "ready", "failed"]:
        """How its closure stands now; asking neither waits nor computes a number. No virtual time passes: a loop needs `sd.sleep`."""
        result = self._result
        if result.state == "pending":
            result.polling = result.polling or Polling(SUSPICIOUS)
            result.polling.found(result.engine.now, f'the state of closure {result.number} was "pending"')
        return result.state

    def __float__(self) -> float:
        return float(self.fetch())

    def __repr__(self) -> str:
        part = "".join(f"[{key!r}]" for key in self._path)
        return f"RemoteValue(closure {self._result.number}{part}, {self._result.state})"


def _in_words(value: object) -> str:
    """What a value consists of."""
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} with the keys {list(cast('Mapping[object, object]', value))!r}"
    if isinstance(value, Sized) and not isinstance(value, np.ndarray):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__} of shape {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"


def fetched(values: Any) -> Any:
    """A structure with each `RemoteValue` in it replaced by its value.

    Raises:
        InvalidArgumentError: it cannot be taken apart.
    """
    require_shallow(values, "the values of fetch")
    return jax.tree_util.tree_map(lambda leaf: leaf.fetch() if isinstance(leaf, RemoteValue) else leaf, values)
