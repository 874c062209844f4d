"""What a summary of a run holds: plain dicts, whose keys are named here.

Times are virtual seconds; a moment that never came is None. `simdist.trace.summary` says how each is found.
"""

from __future__ import annotations

from typing import TypedDict

__all__ = ["FailureSummary", "LaneSummary", "PathSummary", "QueueSummary", "ServerSummary", "StalenessSummary", "Summary", "TaskSummary"]


class LaneSummary(TypedDict):
    """One lane: `utilisation` is the share of the run in which it was busy, `seconds` are by category."""

    busy_s: float
    utilisation: float
    seconds: dict[str, float]
    bytes_sent: float


class TaskSummary(TypedDict):
    """One task: `utilisation` is the share of the run in which its devices computed."""

    utilisation: float
    bytes_sent: float


class StalenessSummary(TypedDict):
    """How stale updates were; `histogram` is the number of updates by staleness."""

    updates: int
    mean: float | None
    max: int | None
    histogram: dict[int, int]


class ServerSummary(TypedDict):
    """One parameter server: `busy_s` and `utilisation` count the time in which it applied updates.

    The staleness is None where no update has one; `bytes_received` is None where the server shares its port with other tasks.
    """

    updates: int
    mean_staleness: float | None
    max_staleness: int | None
    busy_s: float
    utilisation: float
    bytes_received: float | None
    bytes_sent: float


class QueueSummary(TypedDict):
    """The length of one queue, over time."""

    mean: float
    max: float


class PathSummary(TypedDict):
    """The critical path: its end, the waiting on it, its parts, and its seconds by category."""

    end_s: float
    waited_s: float
    segments: int
    seconds: dict[str, float]


class FailureSummary(TypedDict):
    """One crash, and how the cluster came back."""

    task: str
    time_s: float
    detected_s: float | None
    restarted_s: float | None
    recovery_s: float | None
    retried_closures: int
    rolled_back_updates: int


class Summary(TypedDict):
    """A whole run; `spans` and `instants` are counts by category, `links` are bytes by name of the link."""

    seed: int
    duration_s: float
    lanes: dict[str, LaneSummary]
    tasks: dict[str, TaskSummary]
    links: dict[str, float]
    spans: dict[str, int]
    instants: dict[str, int]
    staleness: StalenessSummary
    servers: dict[str, ServerSummary]
    queues: dict[str, QueueSummary]
    critical_path: PathSummary
    failures: list[FailureSummary]
