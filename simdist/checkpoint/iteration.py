"""`checkpoints_iterator`: each new checkpoint of a directory, as it comes. (Lesson 10 has `SidecarEvaluator`, which evaluates them.)"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from simdist.arguments import number
from simdist.checkpoint.checkpoint import PathLike
from simdist.checkpoint.directory import latest_checkpoint
from simdist.errors import InvalidArgumentError
from simdist.runtime.sleep import sleep

__all__ = ["checkpoints_iterator"]

POLL_S = 1.0
"""Virtual seconds between two looks at the directory."""


def checkpoints_iterator(
    checkpoint_dir: PathLike,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], object] | None = None,
) -> Iterator[str]:
    """The newest checkpoint of a directory, again and again, each once; in between it sleeps in virtual time.

    Of several that come while it is away it gives the last. `timeout_fn` is asked only when the time is over without a new one.

    Args:
        checkpoint_dir: where another task saves.
        min_interval_secs: virtual seconds between two checkpoints that it gives, at least; default 0.
        timeout: virtual seconds without a new one, after which it ends; None (default): it waits for ever.
        timeout_fn: whether it is to end when the time is over; default: it ends.

    Yields:
        Paths of checkpoints.

    Raises:
        InvalidArgumentError: the directory is a file, or `timeout_fn` is given without `timeout`.
        TypeError: a number that is none, or `timeout_fn` is no function.

    Example:
        >>> import tempfile
        >>> import simdist as sd
        >>> with sd.Cluster({"worker": 1}):
        ...     directory = tempfile.mkdtemp()
        ...     path = sd.Checkpoint(v=sd.Variable(1.0)).save(directory + "/ckpt")
        ...     list(sd.checkpoints_iterator(directory, timeout=5.0)) == [path]
        True
    """
    interval_s = number(min_interval_secs, "min_interval_secs")
    timeout_s = math.inf if timeout is None else number(timeout, "timeout")
    if timeout_fn is not None and not callable(timeout_fn):
        raise TypeError(f"timeout_fn is {timeout_fn!r}; expected a function without arguments, or None")
    if timeout_fn is not None and timeout is None:
        raise InvalidArgumentError(
            "timeout_fn is asked when `timeout` is over, and no timeout was given. Pass timeout=, in virtual seconds."
        )
    latest_checkpoint(checkpoint_dir)  # refuses a file at once, and not at the first element
    return _paths(checkpoint_dir, interval_s, timeout_s, timeout_fn or (lambda: True))


def _paths(checkpoint_dir: PathLike, interval_s: float, timeout_s: float, may_end: Callable[[], object]) -> Iterator[str]:
    seen: str | None = None
    while True:
        waited_s = 0.0
        while (found := latest_checkpoint(checkpoint_dir)) in (None, seen):
            if waited_s >= timeout_s:
                if may_end():
                    return
                waited_s = 0.0
            step_s = min(POLL_S, timeout_s - waited_s) if timeout_s > waited_s else POLL_S
            sleep(step_s)
            waited_s += step_s
        assert found is not None
        seen = found
        yield found
        if interval_s:
            sleep(interval_s)
