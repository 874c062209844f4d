"""JAX's settings, of which a ``with`` opens some for this thread: ``jax.enable_x64``, ``jax.default_matmul_precision``, ``jax.debug_nans``.

What is traced depends on most of them. A task has those that were open where it was begun, or where the work that it does was given.

What may live in this file: reading and setting what JAX keeps for a thread. It does not import JAX: it looks it up among the modules that
are already loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

__all__ = [
    "OpenSetting",
    "TraceSettings",
    "close_settings",
    "has_another_width",
    "is_jax_tracing",
    "open_settings",
    "opened",
    "set_here",
    "states",
    "trace_settings",
]

CONFIG = "jax._src.config"
TRACE = ("jax._src.core", ("trace_state", "trace_state_strong_ref", "axis_env_state"))
"""Where JAX keeps the trace in which code runs, and the axes that it has there."""
UNTRACED = (
    *("jax_debug_nans", "jax_debug_infs", "jax_log_compiles", "jax_check_tracer_leaks", "jax_explain_cache_misses", "jax_enable_checks"),
    *("jax_default_prng_impl", "jax_enable_custom_prng", "jax_legacy_prng_key", "jax_no_tracing", "jax_enable_compilation_cache"),
    *("jax_transfer_guard", "jax_transfer_guard_host_to_device", "jax_transfer_guard_device_to_device", "jax_thread_guard"),
    *("jax_transfer_guard_device_to_host", "jax_array_garbage_collection_guard", "jax_traceback_filtering", "jax_optimization_level"),
)
"""Settings of JAX that a ``with`` opens and that change no compiled code, so that what JAX calls its trace context leaves them out."""

OpenSetting: TypeAlias = tuple[Any, Any]
"""One of JAX's settings, and the value that it has for this thread alone."""


class TraceSettings:
    """All settings that what is traced depends on, at some moment; the same object as long as none changes.

    Attributes:
        context: what JAX keeps its compiled functions by.
        opened: those that differ for this thread.
    """

    __slots__ = ("_hash", "context", "opened")

    def __init__(self, context: object, opened: Sequence[OpenSetting]) -> None:
        self.context = context
        self.opened = opened
        self._hash = hash(context)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TraceSettings) and self.context == other.context)

    def __hash__(self) -> int:
        return self._hash


def trace_settings() -> TraceSettings:
    """The settings of now that what is traced depends on.

    Example:
        >>> import jax
        >>> outside = trace_settings()
        >>> with jax.enable_x64():
        ...     trace_settings() == outside
        False
        >>> trace_settings() == outside
        True
    """
    config = cast(Any, sys.modules.get(CONFIG))
    if config is None:
        return _last[0]
    context = config.trace_context()
    if context != _last[0].context:
        _last[0] = TraceSettings(context, [(state, value) for state, value in open_settings() if state not in _untraced(config)])
    return _last[0]


def has_another_width(settings: Sequence[OpenSetting]) -> bool:
    """Whether ``jax.enable_x64`` is open among these settings, and other code has numbers of the other width."""
    return any(state.name == "jax_enable_x64" and value != state.get_global() for state, value in settings)


def open_settings() -> list[OpenSetting]:
    """JAX's settings that differ for this thread, with their values."""
    config = cast(Any, sys.modules.get(CONFIG))
    if config is None:
        return []
    unset = config.config_ext.unset
    if not _asked:
        _asked.extend([state.get_local for state in _untraced(config)])
    context = config.trace_context()
    if context == _clean.get("context") and [ask() for ask in _asked].count(unset) == len(_asked):
        return []
    found = [(state, value) for state in config.config_states.values() if (value := state.get_local()) is not unset]
    if not found:
        _clean["context"] = context
    return found


def _untraced(config: Any) -> list[Any]:
    return [config.config_states[name] for name in UNTRACED if name in config.config_states]


_last = [TraceSettings(None, ())]  # what `trace_settings` has given last
_clean: dict[str, Any] = {}
_asked: list[Callable[[], Any]] = []  # give the values of `UNTRACED` for this thread


def close_settings(settings: Sequence[OpenSetting]) -> None:
    """Let these settings be what they are for all threads."""
    for state, _ in settings:
        set_here(state, sys.modules[CONFIG].config_ext.unset)


def set_here(state: Any, value: Any) -> None:
    """Set one of JAX's settings for this thread, as its ``with`` does: some, as `debug_nans`, install what looks at all results."""
    state.set_local(value)
    install = getattr(state, "_update_thread_local_hook", None)
    if install is not None:
        install(None if value is sys.modules[CONFIG].config_ext.unset else value)


@contextmanager
def opened(settings: Sequence[OpenSetting]) -> Iterator[None]:
    """Inside, these settings are open for this thread, as in the ``with`` in which they were found.

    Example:
        >>> import jax
        >>> with jax.enable_x64():
        ...     found = open_settings()
        >>> with opened(found):
        ...     jax.numpy.ones(2).dtype
        dtype('float64')
        >>> jax.numpy.ones(2).dtype
        dtype('float32')
    """
    before = [(state, state.get_local()) for state, _ in settings]
    try:
        for state, value in settings:
            set_here(state, value)
        yield
    finally:
        for state, value in before:
            set_here(state, value)


def states() -> list[Any]:
    """All that JAX keeps for a thread: its settings, and the trace in which code runs."""
    config, core = cast(Any, sys.modules.get(CONFIG)), cast(Any, sys.modules.get(TRACE[0]))
    found = [] if config is None else list(config.config_states.values())
    return found + [getattr(core, name) for name in TRACE[1] if hasattr(core, name)]


def is_jax_tracing() -> bool:
    """Whether code runs inside of a trace of JAX now."""
    core = cast(Any, sys.modules.get(TRACE[0]))
    return core is not None and not core.trace_state_clean()
