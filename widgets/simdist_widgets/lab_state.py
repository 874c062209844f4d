"""What the Lab shows of a session at this moment, as small JSON: where it stands, its tasks, messages, faults, queue and output."""

from __future__ import annotations

from typing import Any

from simdist.faults.base import Fault
from simdist.runtime.cluster import Cluster
from simdist.session import Command, Session
from simdist.session.present import closures_in_flight, flights, tasks_since
from simdist_widgets.cluster_layout import MOST_SINGLE
from simdist_widgets.torus_lines import line_of_each_link

__all__ = ["LinkLoads", "command_line", "moment_of", "state_of"]

MOST_OUTPUT = 10_000  # characters
MOST_CLOSURES = 50
MOST_TEXT = 2_000


def moment_of(cluster: Cluster) -> dict[str, Any]:
    """What the machines of a cluster do at this moment."""
    tasks = tasks_since(cluster).values()
    return {
        "now_s": cluster.now,
        "tasks": [state for state, _ in tasks],
        "since_s": [since_s for _, since_s in tasks],
        "queue": _queue(cluster),
        "flights": [
            {"source": flight.source, "target": flight.target, "kind": flight.kind, "bytes": flight.size_bytes, "started_s": flight.began_s}
            for flight in flights(cluster)
        ],
    }


def state_of(session: Session, loads: LinkLoads) -> dict[str, Any]:
    """The state of a session.

    Args:
        session: whose; a run that is not kept is done again.
        loads: of the same session's links.
    """
    cluster, commands, done = session.cluster, session.commands, session.faults
    return {
        **moment_of(cluster),
        "state": session.state,
        "message": "" if session.error is None else f"{type(session.error).__name__}: {session.error}"[:MOST_TEXT],
        "events": session.moment().events,
        "steps": session.steps,
        "closures": session.closures,
        "rewind_real_s": session.rewind_seconds(session.now),
        "commands": [_command(command, number < len(done)) for number, command in enumerate(commands)],
        "faults": [_fault(command, done[number] if number < len(done) else None, session.state) for number, command in enumerate(commands)],
        "output": session.last_output(MOST_OUTPUT),
        "loads": loads.since_last_state(session),
    }


def _queue(cluster: Cluster) -> dict[str, Any] | None:
    """The closures of the chief's coordinators; None where there is none."""
    waiting, running = cluster.trace.counters.last("chief:0", "queue"), closures_in_flight(cluster)
    if waiting is None and not running:
        return None
    return {
        "waiting": int(waiting or 0),
        "in_flight": len(running),
        "closures": [{"number": number, "worker": worker} for worker, number in running[:MOST_CLOSURES]],
    }


def command_line(command: Command) -> str:
    """The line of Python that injects what a command did.

    Example:
        >>> command_line(Command(0.5, {"kind": "crash", "task": "worker:1"}))
        "session.inject({'kind': 'crash', 'task': 'worker:1'})"
    """
    return f"session.inject({dict(command.fault)!r})"


def _command(command: Command, is_done: bool) -> dict[str, Any]:
    return {
        "at_s": command.at_s,
        "fault": dict(command.fault),
        "python": command_line(command),
        "status": "done" if is_done else "pending",
    }


def _fault(command: Command, fault: Fault | None, state: str) -> dict[str, Any]:
    """A command's fault with what has become of it: pending, fired, healed, or never."""
    if fault is None:
        text = f"{command.fault['kind']} at {command.at_s:.6f} s"
        return {"description": text, "status": "pending", "fired_s": None, "healed_s": None, "fault": dict(command.fault)}
    over = state in ("finished", "failed", "closed")
    waiting = "never" if fault.is_missed or over else "pending"
    status = "healed" if fault.healed_s is not None else "fired" if fault.fired_s is not None else waiting
    return {
        "description": fault.describe(),
        "status": status,
        "fired_s": fault.fired_s,
        "healed_s": fault.healed_s,
        "fault": dict(command.fault),
    }


class LinkLoads:
    """The share of each link's bandwidth that was in use between two states."""

    def __init__(self) -> None:
        self._torus: dict[str, tuple[str, str, str]] | None = None
        self._begin_again(0)

    def _begin_again(self, number: int) -> None:
        """Count from the start of a run; of this number among those of its session."""
        self._run = number
        self._now_s = 0.0
        self._bytes: dict[str, float] = {}
        self._loads: dict[str, float] = {}

    def _line_of(self, cluster: Cluster, link: str) -> str:
        """The line that shows a link: that of its port, of its bus, or in a torus that of two neighbours."""
        if self._torus is None:
            self._torus = line_of_each_link(cluster)
        if link in self._torus:
            return self._torus[link][0]
        return link if link.endswith(("+", "-")) else link.rsplit("/", 1)[0]

    def since_last_state(self, session: Session) -> dict[str, float]:
        """The load of each line of the picture, 0 to 1: the greater one of its two directions. A grid of cells has no lines.

        Where no time has passed since the last state, its loads. After a rewind, the load since the start: what was seen is void.
        """
        world = session.cluster.world
        if len(world.tasks) > MOST_SINGLE:
            return {}
        if session.begun_again != self._run:
            self._begin_again(session.begun_again)
        passed_s = session.now - self._now_s
        if passed_s == 0.0 and self._loads:
            return self._loads
        loads: dict[str, float] = {}
        carried = world.bytes_carried()
        for link in world.fabric.links():
            new = carried[link.name] - self._bytes.get(link.name, 0.0)
            load = min(1.0, max(0.0, new / (link.bandwidth_bytes_per_s * passed_s))) if passed_s > 0.0 else 0.0
            line = self._line_of(session.cluster, link.name)
            loads[line] = max(loads.get(line, 0.0), round(load, 4))
        self._now_s, self._bytes, self._loads = session.now, carried, loads
        return loads
