"""Parameter servers that die and will be back: the program on the chief waits for them before it reads variables, or saves once more.

Closures wait for such servers by themselves. To read a variable on the chief takes no virtual time, in which a server could come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from simdist.coordinator.coordinator import ClusterCoordinator
from simdist.errors import UnavailableError

__all__ = ["await_servers", "with_servers"]

# So long the chief waits before it looks again.
AGAIN_S = 0.5

T = TypeVar("T")


def await_servers(coordinator: ClusterCoordinator) -> None:
    """Wait until no server is down, or gets back what it held, that will be back."""
    while coordinator.pool.awaits_servers():
        coordinator.engine.sleep(AGAIN_S)


def with_servers(coordinator: ClusterCoordinator, save: Callable[[], T]) -> T:
    """Do something that reads variables; again, when a server that has died meanwhile is back. All are there when it is over.

    It may take virtual time, in which a server dies that it needs no more; what follows it may read variables, too.

    Args:
        coordinator: of the servers.
        save: what is done; a part of it that has failed must leave nothing behind.

    Raises:
        UnavailableError: what a server held is lost.
    """
    while True:
        await_servers(coordinator)
        try:
            saved = save()
        except UnavailableError:
            if not coordinator.pool.awaits_servers():
                raise
        else:
            await_servers(coordinator)
            return saved
