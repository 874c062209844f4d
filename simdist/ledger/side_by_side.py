"""Kernel calls side by side: one on each core of the processor.

JAX computes on a CPU what one thread calls in the order of the calls, one after the other, whether or not they need each other. So calls
that do not are made by several threads. They are the same calls of the same kernels: no bit changes.

What may live in this file: the threads. Not: which calls may stand side by side (call_by_call.py), nor how the replicas of a step are
cut into such calls (equal_calls.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import TypeVar

import jax

from simdist.jax_settings import open_settings

__all__ = ["called", "num_cores"]

Result = TypeVar("Result")
# Of a processor with very many cores the most that are used: the calls share its memory.
MOST_CORES = 16


@cache
def num_cores() -> int:
    """How many calls can be computed at once; 1 where an accelerator computes: it finds out by itself."""
    if jax.default_backend() != "cpu":
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_CORES)


def called(calls: Sequence[Callable[[], Result]]) -> tuple[list[Result], Exception | None]:
    """Make some calls that do not need each other, the first by this thread, and each other one by a thread of its own.

    Where JAX is configured for this thread alone, by a ``with`` of the caller, this thread makes all of them; and those for which the
    system gives no thread, as it gives none any more when Python ends.

    Returns:
        The results before the first call that failed, in the order of the calls, and its error; all results and None where none failed.

    Example:
        >>> called([lambda: 1, lambda: 2 // 0, lambda: 3])
        ([1], ZeroDivisionError('integer division or modulo by zero'))
    """
    others: list[Future[Result]] = []
    results: list[Result] = []
    try:
        if len(calls) > 1 and not open_settings():
            with suppress(RuntimeError):
                for call in calls[1:]:
                    others.append(_threads().submit(call))
        results.append(calls[0]())
        for other in others:
            results.append(other.result())
        for call in calls[1 + len(others) :]:
            results.append(call())
    except Exception as error:
        return results, error
    finally:
        for other in others:
            other.exception()  # nothing goes on behind the caller's back
    return results, None


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_CORES - 1, "simdist-kernels")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of its parent's threads
