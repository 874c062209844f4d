"""Process state: what is global to a Python process, kept for each task and swapped when another task runs.

Keras' names, scopes and seeds, the stack of strategies, JAX's configuration contexts, the prefix of printed lines, and what the tasks of
one program have in common (`simulated_process.py`: ``os.environ`` with TF_CONFIG, the generators of ``random`` and ``numpy.random``, the
module ``__main__``) would otherwise leak from one task into the next at every switch. Two interleaved mains must equal two separate ones;
the test of that name is the proof.

What may live in this file: saving and restoring process-wide state (that of JAX: `jax_settings.py`). It does not import Keras: it looks
it up among the modules that are already loaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TextIO, TypeVar, cast

from simdist.jax_settings import OpenSetting, close_settings, open_settings, set_here, states
from simdist.simulated_process import SimulatedProcess

__all__ = [
    "PrefixedOutput",
    "TaskContext",
    "TaskLocal",
    "active",
    "active_context",
    "current_seed",
    "kept_state",
]

KERAS_STATE = "keras.src.backend.common.global_state"
Value = TypeVar("Value")


class TaskContext:
    """The process-wide state of one task.

    Args:
        process: the simulated process that its code belongs to, perhaps with that of other tasks; None: the Python process.
        prefix: text before each line that the task prints; empty for none.
        seeds: gives a fresh integer for each unseeded Keras initialiser of this task, drawn as the task that it is given, or as its own for
            None; None leaves Keras alone.
        jax_settings: of JAX, in which its code begins.
    """

    def __init__(
        self,
        process: SimulatedProcess | None = None,
        prefix: str = "",
        seeds: Callable[[str | None], int] | None = None,
        jax_settings: Sequence[OpenSetting] = (),
    ) -> None:
        self.process = process
        self.prefix = prefix
        self.seeds = seeds
        self.values: dict[TaskLocal[Any], Any] = {}
        self._keras: tuple[Any, Any] | None = None
        self._jax = jax_settings
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
        self._jax = open_settings()
        close_settings(self._jax)
        if self._outer_stdout is not None:
            sys.stdout, self._outer_stdout = self._outer_stdout, None

    def _enter(self) -> None:
        self._enter_keras()
        for state, value in self._jax:
            set_here(state, value)
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


class kept_state:
    """Where Ctrl-C ends a block, leave what is global to the process as it was: JAX's trace, Keras' scopes, the values of `TaskLocal`.

    Python raises Ctrl-C anywhere, also where a context manager of JAX or Keras has just opened, or is about to close. Then it stays open,
    and each later cell runs in it.

    Args:
        stacks: get back the length that they had.

    Example:
        >>> steps = []
        >>> try:
        ...     with kept_state(steps):
        ...         steps.append("open")
        ...         raise KeyboardInterrupt
        ... except KeyboardInterrupt:
        ...     print(steps)
        []
    """

    def __init__(self, *stacks: list[Any]) -> None:
        self._stacks = stacks

    def __enter__(self) -> None:
        keras = cast(Any, sys.modules.get(KERAS_STATE))
        self._jax = [(state, state.get_local()) for state in states()]
        self._keras = None if keras is None else vars(keras.GLOBAL_STATE_TRACKER)
        self._names = {name: _copied(value) for name, value in (self._keras or {}).items()}
        self._values = {key: _copied(value) for key, value in active.context.values.items()}
        self._lengths = [len(stack) for stack in self._stacks]

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return
        for state, value in self._jax:
            set_here(state, value)
        if self._keras is not None:
            _put_back(self._keras, self._names)
        _put_back(active.context.values, self._values)
        for stack, length in zip(self._stacks, self._lengths, strict=True):
            del stack[length:]


def _copied(value: Any) -> tuple[Any, list[Any] | None]:
    """A value, and what is in it if it is a list, which changes in place."""
    return value, list(cast("list[Any]", value)) if isinstance(value, list) else None


def _put_back(values: dict[Any, Any], before: dict[Any, tuple[Any, list[Any] | None]]) -> None:
    for name in [name for name in values if name not in before]:
        del values[name]
    for name, (value, items) in before.items():
        values[name] = value
        if items is not None:
            value[:] = items


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


def current_seed(drawing: str | None = None) -> int | None:
    """A fresh seed from the stream of the task that runs now, or as another task would draw it; None where no task asked for one."""
    return active.context.seeds(drawing) if active.context.seeds is not None else None


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
