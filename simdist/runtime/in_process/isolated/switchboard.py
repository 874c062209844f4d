"""The line between the driver and its tasks, and between tasks: bytes go in, bytes come out. An engine of machines has sockets here."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Deliver", "Switchboard"]

Deliver = Callable[[str, bytes], bytes]
"""Brings a request to a task, and its reply back."""


class Switchboard:
    """The hosts of all tasks, by name.

    Attributes:
        hosts: what each task does with a request.
    """

    def __init__(self) -> None:
        self.hosts: dict[str, Callable[[bytes], bytes]] = {}

    def deliver(self, task: str, request: bytes) -> bytes:
        """Bring a request to a task; its reply."""
        return self.hosts[task](request)
