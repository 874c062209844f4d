"""What a launched main knows of itself: on which task it runs, who else was launched with it, and what happens when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from simdist.process_state import TaskLocal

__all__ = ["LaunchedMain", "launched_main"]


@dataclass(frozen=True)
class LaunchedMain:
    """A main that was launched on a task of a cluster.

    Attributes:
        cluster: the `Cluster`, which lies above the engines.
        task: the name of its task.
        returned: what the mains have returned that were launched together and have ended, by task.
        serve: waits for work from other tasks until all mains have ended that do something else, and then ends this main.
        last_calls: made when the main has returned, in this order, as a part of it: it waits for what it has begun.
        endings: called when it ends, in this order, with its error or None; a crash of its process calls none of them.
        groups: those that its strategies have joined, as its engine knows them.
    """

    cluster: Any
    task: str
    returned: Mapping[str, object]
    serve: Callable[[], NoReturn]
    last_calls: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    endings: list[Callable[[BaseException | None], None]] = field(default_factory=list[Callable[[BaseException | None], None]])
    groups: list[Any] = field(default_factory=list[Any])


launched_main: TaskLocal[LaunchedMain | None] = TaskLocal(lambda: None)
"""The launched main that runs now; None in a notebook."""
