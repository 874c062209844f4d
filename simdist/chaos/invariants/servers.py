"""Invariants of parameter servers: what counts once, and how stale an update may be."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simdist.chaos.evidence import Evidence, Invariant
from simdist.chaos.workloads.servers import STEP, counts_once, servers_may_lose

__all__ = ["SERVERS"]


def _counts(evidence: Evidence) -> Iterator[str]:
    """Each closure that is done counts: once where that was asked for, otherwise at most once more for each time that it was run again."""
    run = evidence.run
    steps = [value for letter, value in run.stage.closures if letter == STEP]
    counted = run.stage.values.get("count")
    if not steps or counted is None or not evidence.ended_well or servers_may_lose(run):
        return
    done = sum(value.state == "ready" for value in steps)
    again = 0 if counts_once(run) else len(run.cluster.trace.instants.where(category="retry"))
    if not done <= float(counted) <= done + again:
        yield f"the counter holds {float(counted)} for {done} closures that are done, of which {again} may have counted twice"


def _staleness(evidence: Evidence) -> Iterator[str]:
    """In rounds, an update is as many versions stale as its mode allows; where a server went back, it has missed the lost ones, too."""
    run = evidence.run
    options = run.scenario.options
    if run.scenario.workload != "servers":
        return
    is_bounded = options["mode"] != "async" and not run.processes.crashed(_servers(evidence))
    most = (options["staleness"] or 0) if is_bounded else math.inf
    for span in run.cluster.trace.spans.where(category="apply"):
        if "read_version" in span.facts:
            stale = span.facts["version"] - 1 - span.facts["read_version"]
            if not 0 <= stale <= most:
                yield f"{span} is {stale} versions stale; 0 to {most} are allowed"


def _versions(evidence: Evidence) -> Iterator[str]:
    """No number stands for two versions, also where a server went back to older variables."""
    run = evidence.run
    if run.scenario.workload != "servers":
        return
    newest: dict[tuple[str, str], int] = {}
    for span in run.cluster.trace.spans.where(category="apply"):
        version, variable = span.facts.get("version"), (span.lane, span.name)
        if version is None:
            continue
        if version <= newest.get(variable, -1):
            yield f"{span}: version {version} came after {newest[variable]}"
        newest[variable] = version


def _servers(evidence: Evidence) -> list[str]:
    return [task for task in evidence.run.cluster.tasks if task.startswith("ps")]


SERVERS = [
    Invariant("counts-as-asked", "A closure that is done counts once, or at least once where no more was asked for.", _counts),
    Invariant("bounded-staleness", "No update is staler than its mode allows, nor newer than what it read.", _staleness),
    Invariant("versions-grow", "The versions of a variable grow by each update.", _versions),
]
