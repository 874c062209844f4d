"""`ClusterFile`: a cluster as a TOML file describes it, with its faults, and with what is to be written in the end.

    seed = 0                        # of all random streams; default 0
    numerics = "deferred"           # as of sd.Cluster; default "deferred"
    restart = "always"              # whether mains start again after a crash; default "never"
    hardware = "server_cpu"         # a preset, or a table by job: hardware_keys.py; default a laptop's processor
    network = "ethernet_10g"        # a preset, or a table of figures; default 10-gigabit Ethernet
    disks = "ssd"                   # a preset, or a table by job; default nvme
    time_limit = 3600.0             # virtual seconds after which the run is stopped; default none
    evaluator_grace = 600.0         # virtual seconds for which an evaluator may go on after all others have ended; default 600

    [jobs]                          # numbers of tasks, or addresses; the script runs on each of them
    chief = 1
    worker = 3
    ps = ["ps0.lab:2222", "ps1.lab:2222"]

    [[faults]]                      # any number of them, as in the JSON of sd.FaultPlan
    kind = "crash"
    task = "worker:1"
    after_steps = 25
    restart_after = 1.0

    [output]                        # paths, from the current directory
    trace = "trace.json"            # for https://ui.perfetto.dev
    summary = "summary.txt"

Only ``[jobs]`` is needed. Keys that are not known are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from simdist.cluster import ClusterSpec, coordination_leader, find_task
from simdist.cluster.roles import TASK_TYPES
from simdist.errors import InvalidArgumentError, SimdistError
from simdist.faults.base import Fault
from simdist.faults.plan import copy_of
from simdist.faults.plan_json import fault_from_plain
from simdist.hardware import Device, DiskModel, Network
from simdist.launcher.hardware_keys import read_disks, read_hardware, read_network
from simdist.launcher.toml_table import TomlTable, read_toml
from simdist.ledger.ledger import NUMERICS
from simdist.runtime.cluster import Cluster

__all__ = ["ClusterFile", "read_cluster_file"]

KEYS = ("seed", "numerics", "restart", "hardware", "network", "disks", "time_limit", "evaluator_grace", "jobs", "faults", "output")
EVALUATOR_GRACE_S = 600.0


@dataclass(frozen=True)
class ClusterFile:
    """What a file says.

    Attributes:
        path: of the file.
        spec: the jobs and their tasks.
        seed, numerics, hardware, network, disks: as of `Cluster`.
        restart: as of `Cluster.launch`.
        time_limit_s: virtual seconds after which the run is stopped; None: never.
        evaluator_grace_s: virtual seconds for which an evaluator may go on after all others have ended.
        faults: each with the table that describes it.
        trace, summary: the paths of files that are to be written; None: not.
    """

    path: Path
    spec: ClusterSpec
    seed: int
    numerics: str
    restart: str
    hardware: Device | dict[str, Device] | None
    network: Network | None
    disks: DiskModel | dict[str, DiskModel] | None
    time_limit_s: float | None
    evaluator_grace_s: float
    faults: Sequence[tuple[TomlTable, Fault]]
    trace: Path | None
    summary: Path | None

    def cluster(self, seed: int | None = None, with_faults: bool = True) -> Cluster:
        """A new cluster with its faults planned.

        Args:
            seed: in place of the file's.
            with_faults: False: nothing is planned.

        Raises:
            InvalidArgumentError: the network does not fit the tasks, or a fault makes no sense on this cluster.
        """
        try:
            seed = self.seed if seed is None else seed
            cluster = Cluster(self.spec, seed, self.hardware, self.network, self.numerics, disks=self.disks)
        except SimdistError as error:
            raise InvalidArgumentError(f"{self.path}: {error}") from error
        for table, fault in self.faults if with_faults else ():
            _checked(table, lambda fault=fault: cluster.faults.add(copy_of(fault)))
        return cluster


def read_cluster_file(path: Path) -> ClusterFile:
    """What a file says; it may be turned into one cluster.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it is not TOML, has a key that is not known, lacks ``[jobs]``, or a value makes no sense, for example a
            fault of a task that does not exist.
    """
    table = read_toml(path)
    table.require_known(KEYS)
    spec = _spec(table)
    output = table.table("output")
    output.require_known(("trace", "summary"))
    trace, summary = _path(output, "trace"), _path(output, "summary")
    if trace is not None and trace == summary:
        raise output.wrong("summary", "another path than that of the trace, which it would overwrite")
    return ClusterFile(
        path=path,
        spec=spec,
        seed=table.whole_number("seed", 0),
        numerics=table.word("numerics", "deferred", NUMERICS),
        restart=table.word("restart", "never", ("never", "always")),
        hardware=read_hardware(table, dict.fromkeys(["chief", *spec.jobs])),
        network=read_network(table),
        disks=read_disks(table, dict.fromkeys(["chief", *spec.jobs])),
        time_limit_s=table.seconds("time_limit", None),
        evaluator_grace_s=table.seconds("evaluator_grace", EVALUATOR_GRACE_S),
        faults=[(item, _checked(item, lambda item=item: _fault(spec, item))) for item in table.tables("faults")],
        trace=trace,
        summary=summary,
    )


def _spec(table: TomlTable) -> ClusterSpec:
    jobs = table.table("jobs")
    jobs.require_known(TASK_TYPES)
    for job, tasks in jobs.values.items():
        if not isinstance(tasks, (int, list, dict)) or isinstance(tasks, bool):
            raise jobs.wrong(job, "a number of tasks, or a list of their addresses")
    spec = table.build("jobs", lambda: ClusterSpec(jobs.values))
    if not any(spec.num_tasks(job) for job in spec.jobs):
        raise table.refuse("jobs", "there is no task. Write for example [jobs] and below it worker = 2.")
    table.build("jobs", lambda: coordination_leader(spec))  # refuses several chiefs and several evaluators
    return spec


def _fault(spec: ClusterSpec, table: TomlTable) -> Fault:
    fault = fault_from_plain(table.values)
    for task in fault.tasks:
        find_task(spec, task)
    return fault


def _checked(table: TomlTable, make: Callable[[], Fault]) -> Fault:
    """The fault that `make` returns; what it refuses names the file and the fault."""
    try:
        return make()
    except (TypeError, ValueError, LookupError) as error:
        raise InvalidArgumentError(f"{table.file}: {table.name}: {error}") from error


def _path(table: TomlTable, key: str) -> Path | None:
    text = table.text(key)
    if text is not None and "\0" in text:
        raise table.wrong(key, "a path, without null characters")
    return None if text is None else Path(text)
