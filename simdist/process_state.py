"""Process state: what is global to a Python process, kept for each task and swapped when another task runs.

Keras' names, scopes and seeds, the stack of strategies, JAX's configuration contexts, the prefix of printed lines, and what the tasks of
one program have in common (`simulated_process.py`: ``os.environ`` with TF_CONFIG, the generators of ``random`` and ``numpy.random``, the
module ``__main__``) would otherwise leak from one task into the next at every switch. Two interleaved mains must equal two separate ones;
the test of that name is the proof.

What may live in this file: saving and restoring process-wide state. It imports neither Keras nor JAX: it looks them
up among the modules that are already loaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TextIO, TypeVar, cast

from simdist.simulated_process import SimulatedProcess

__all__ = ["PrefixedOutput", "TaskContext", "TaskLocal", "active", "active_context", "current_seed"]

KERAS_STATE = "keras.src.backend.common.global_state"
JAX_CONFIG = "jax._src.config"
Value = TypeVar("Value")


class TaskContext:
    """The process-wide state of one task.

    Args:
        process: the simulated process that its code belongs to, perhaps with that of other tasks; None: the Python process.
        prefix: text before each line that the task prints; empty for none.
        seeds: gives a fresh integer for each unseeded Keras initialiser of this task; None leaves Keras alone.
    """

    def __init__(self, process: SimulatedProcess | None = None, prefix: str = "", seeds: Callable[[], int] | None = None) -> None:
        self.process = process
        self.prefix = prefix
        self.seeds = seeds
        self.values: dict[TaskLocal[Any], Any] = {}
        self._keras: tuple[Any, Any] | None = None
        self._jax: list[tuple[Any, Any]] = []
        self._outer_stdout: TextIO | None = None
        self._prefixed: PrefixedOutput | None = None

    def replace(self, other: TaskContext) -> None:
        """Make this the state of the process; `other` keeps what it had."""
        other._leave()
        if other.process is not self.process:
            if other.process is not None:
                other.process.leave()
            if self.process is not None:
                self.process.enter()
        active.context = self
        self._enter()

    # -- one method pair, one piece of state each -----------------------------------------------------------------

    def _leave(self) -> None:
        self._leave_keras()
        self._leave_jax()
        if self._outer_stdout is not None:
            sys.stdout, self._outer_stdout = self._outer_stdout, None

    def _enter(self) -> None:
        self._enter_keras()
        for state, value in self._jax:
            state.set_local(value)
        if self.prefix:
            self._outer_stdout = sys.stdout
            if self._prefixed is None or self._prefixed.stream is not sys.stdout:
                self._prefixed = PrefixedOutput(sys.stdout, self.prefix)
            sys.stdout = cast(TextIO, self._prefixed)

    def _leave_keras(self) -> None:
        module = sys.modules.get(KERAS_STATE)
        if module is not None:
            self._keras = (module.GLOBAL_STATE_TRACKER, module.GLOBAL_SETTINGS_TRACKER)

    def _enter_keras(self) -> None:
        module = cast(Any, sys.modules.get(KERAS_STATE))
        if module is None:
            return
        if self._keras is None:
            self._keras = (threading.local(), threading.local())
        module.GLOBAL_STATE_TRACKER, module.GLOBAL_SETTINGS_TRACKER = self._keras

    def _leave_jax(self) -> None:
        """Take down every JAX configuration context that this task has open."""
        config = cast(Any, sys.modules.get(JAX_CONFIG))
        if config is None:
            return
        context = config.trace_context()
        self._jax = []
        if context == _clean_jax.get("context"):
            return
        unset = config.config_ext.unset
        for state in config.config_states.values():
            value = state.get_local()
            if value is not unset:
                self._jax.append((state, value))
                state.set_local(unset)
        if not self._jax:
            _clean_jax["context"] = context


_clean_jax: dict[str, Any] = {}


class Active:
    """The context of the code that runs now."""

    __slots__ = ("context",)

    def __init__(self) -> None:
        self.context = TaskContext()


active = Active()


def active_context() -> TaskContext:
    """The context of the code that runs now."""
    return active.context


class TaskLocal(Generic[Value]):
    """A value of which each task has its own, as a `contextvars.ContextVar` has one for each context.

    Args:
        first: makes the value that a task has at the beginning.

    Example:
        >>> depth = TaskLocal(lambda: 0)
        >>> depth.set(depth.get() + 1)
        >>> depth.get(), depth.get(TaskContext())
        (1, 0)
    """

    def __init__(self, first: Callable[[], Value]) -> None:
        self._first = first

    def get(self, context: TaskContext | None = None) -> Value:
        """The value of a task; None: of the one that runs now."""
        values = (active.context if context is None else context).values
        if self not in values:
            values[self] = self._first()
        return values[self]

    def set(self, value: Value, context: TaskContext | None = None) -> None:
        """Replace the value of a task; None: of the one that runs now."""
        (active.context if context is None else context).values[self] = value

    @contextmanager
    def replaced(self, value: Value) -> Iterator[None]:
        """Inside, the task that runs has this value.

        Example:
            >>> depth = TaskLocal(lambda: 0)
            >>> with depth.replaced(1):
            ...     depth.get()
            1
            >>> depth.get()
            0
        """
        before = self.get()
        self.set(value)
        try:
            yield
        finally:
            self.set(before)


def current_seed() -> int | None:
    """A fresh seed from the stream of the task that runs now; None where no task asked for one."""
    return active.context.seeds() if active.context.seeds is not None else None


class PrefixedOutput:
    """A text stream that puts a task's name before each of its lines."""

    def __init__(self, stream: TextIO, prefix: str) -> None:
        self.stream = stream
        self.prefix = prefix
        self.at_start = True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            if self.at_start:
                self.stream.write(self.prefix)
            self.stream.write(line)
            self.at_start = line.endswith("\n")
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
