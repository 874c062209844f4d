"""`Outcome`: what has become of a script on a cluster, as an exit status, lines to print, and files.

Invariant: equal runs give equal lines; nothing in them depends on the clock on the wall.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simdist.errors import SimdistError
from simdist.faults.table import as_text, rows_of
from simdist.runtime.cluster import Cluster
from simdist.runtime.work import LaunchedRun
from simdist.trace import format_summary

__all__ = ["Outcome"]

NAMES_IN_A_LINE = 12


class Outcome:
    """What has become of a script on a cluster.

    Args:
        cluster: on which it ran.
        script: the path of the script.
        failures: the errors with which mains have ended, by task.

    Attributes:
        error: why the run ended early; None where it did not.
        ended_s: the virtual second at which all had ended that had to; None: never.
        lines: what is printed in the end.
        unwritten: the errors of files that could not be written.
    """

    def __init__(self, cluster: Cluster, script: Path, failures: Mapping[str, BaseException]) -> None:
        self.cluster = cluster
        self.script = script
        self.failures = failures
        self.error: Exception | None = None
        self.ended_s: float | None = None
        self.lines: list[str] = []
        self.unwritten: list[str] = []
        self._runs: list[LaunchedRun] = []

    @property
    def status(self) -> int:
        """The exit status: 0 where all mains have ended that had to, none with an error, and all files are written."""
        return 0 if self.error is None and not self.failures and not self.unwritten else 1

    def launch(self, main: Callable[[], Any], jobs: Sequence[str], restart: str) -> LaunchedRun:
        """Launch a main on the cluster, and count its restarts."""
        self._runs.append(self.cluster.launch(main, jobs, restart))
        return self._runs[-1]

    def take_lines(self) -> None:
        """Write down what is to be printed, while the cluster is open."""
        spec = self.cluster.spec
        facts = {
            "result": "ended" if self.status == 0 else "failed",
            "virtual seconds": f"{self.cluster.now if self.ended_s is None else self.ended_s:.6f}",
            "tasks": ", ".join(f"{job} {spec.num_tasks(job)}" for job in spec.jobs),
            "seed": str(self.cluster.seed),
            "restarts of tasks": _counts({name: self.cluster.world.task(name).incarnation for name in self.cluster.tasks}),
            "restarts of mains": _counts({task: count for run in self._runs for task, count in run.restarts.items()}),
            "digest": self.cluster.trace.digest(),
        }
        self.lines = [*(f"{name:<18} {value}" for name, value in facts.items()), "", *self._faults().splitlines()]

    def _faults(self) -> str:
        """The table of faults: the run is over, so what has not fired by now never will."""
        faults = self.cluster.faults
        return as_text(rows_of(faults.planned, lambda fault: "never" if faults.state(fault) == "pending" else faults.state(fault)))

    def write(self, trace: Path | None, summary: Path | None) -> None:
        """Write the files that were asked for, and name them in the lines."""
        text = "\n".join([*self.lines, "", format_summary(self.cluster.trace.summary()), ""])
        self.lines += [""] if trace or summary else []
        if trace is not None:
            self._write(trace, self.cluster.trace.to_perfetto, " (open it at https://ui.perfetto.dev)")
        if summary is not None:
            self._write(summary, lambda path: path.write_text(text, encoding="utf-8"))

    def _write(self, path: Path, write: Callable[[Path], object], hint: str = "") -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        except (OSError, SimdistError) as error:
            why = getattr(error, "strerror", None) or str(error)  # the path of such an error is that of an unfinished file
            self.unwritten.append(f"{path} was not written: {why.rstrip('.')}. Give another path under [output].")
        else:
            self.lines.append(f"wrote {path}{hint}")

    def errors(self) -> list[str]:
        """The errors of mains, with their tasks and lines of the script; why the run ended, if that is another error; unwritten files."""
        lines = [f"[{task}] {line}" for task, error in self.failures.items() for line in _traceback(error, str(self.script))]
        known = list(self.failures.values())
        if self.error is not None and self.error not in known and (self.error.__cause__ is None or self.error.__cause__ not in known):
            lines.append(f"{type(self.error).__name__}: {self.error}")
        return lines + self.unwritten


def _counts(counts: Mapping[str, int]) -> str:
    """Who restarted how often; of many only the first ones."""
    found = [f"{name} {count}" for name, count in counts.items() if count]
    more = f", and {len(found) - NAMES_IN_A_LINE} more tasks" if len(found) > NAMES_IN_A_LINE else ""
    return ", ".join(found[:NAMES_IN_A_LINE]) + more if found else "none"


def _traceback(error: BaseException, script: str) -> list[str]:
    """The lines of a traceback from the script's first line on: the frames before it are those of the launcher."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__)).splitlines()
