"""Which parameter server gets a new cell: the next in turn, or the one with the fewest bytes.

Round robin is TensorFlow's rule. It counts variables and shards alike, so a server may hold one large table and another one small bias.
By bytes, each new cell goes to the server that holds the fewest bytes so far; an optimizer's slots lie beside their shard and count
with it.

Sources: tf.distribute.ParameterServerStrategy (round robin); Graham, Bounds on Multiprocessing Timing Anomalies, 1969 (greedy by load).

Taught in lesson 06.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from simdist.arguments import known_word
from simdist.variables.layout import Layout

__all__ = ["PLACEMENTS", "FewestBytes", "RoundRobin", "ServerPlacement", "server_placement"]


class ServerPlacement(Protocol):
    """Chooses the server of each new cell."""

    def choose(self) -> str:
        """The task that gets the next cell."""
        ...


class RoundRobin:
    """The servers in turn, over variables and shards.

    Args:
        servers: tasks, in their order.
        layout: of the strategy; not used.

    Example:
        >>> turns = RoundRobin(["ps:0", "ps:1"])
        >>> [turns.choose() for _ in range(3)]
        ['ps:0', 'ps:1', 'ps:0']
    """

    def __init__(self, servers: Sequence[str], layout: Layout | None = None) -> None:
        self.servers = list(servers)
        self._next = 0

    def choose(self) -> str:
        server = self.servers[self._next % len(self.servers)]
        self._next += 1
        return server


class FewestBytes:
    """The server that holds the fewest bytes of the strategy's variables and slots; of several, the one with the lowest index.

    Args:
        servers: tasks, in their order.
        layout: of the strategy, whose cells count.
    """

    def __init__(self, servers: Sequence[str], layout: Layout) -> None:
        self.servers = list(servers)
        self.layout = layout

    def choose(self) -> str:
        held = self.held_bytes()
        return min(self.servers, key=held.__getitem__)

    def held_bytes(self) -> dict[str, int]:
        """The bytes that each server holds."""
        held = dict.fromkeys(self.servers, 0)
        for cell in self.layout.cells():
            if cell.task in held:
                held[cell.task] += cell.aval.size_bytes
        return held


PLACEMENTS: dict[str, Callable[[Sequence[str], Layout], ServerPlacement]] = {"round_robin": RoundRobin, "bytes": FewestBytes}


def server_placement(name: str, servers: Sequence[str], layout: Layout) -> ServerPlacement:
    """The placement of a name.

    Raises:
        InvalidArgumentError: no such name.
    """
    return PLACEMENTS[known_word(name, "placement", PLACEMENTS)](servers, layout)
