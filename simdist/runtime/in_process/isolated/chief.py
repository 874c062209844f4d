"""What those who reach tasks need of their engine."""

from __future__ import annotations

from typing import Protocol

from simdist.runtime.in_process.isolated.groups import RemoteGroups
from simdist.runtime.in_process.isolated.post import Post
from simdist.runtime.in_process.workers import Chief

__all__ = ["RemoteChief"]


class RemoteChief(Chief, Protocol):
    """The engine of remote workers and replicas.

    Attributes:
        post: reaches the tasks.
        versions: who holds which groups.
    """

    post: Post
    versions: RemoteGroups
