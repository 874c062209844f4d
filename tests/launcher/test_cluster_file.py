"""Cluster files: what they say, the clusters that are made of them, and what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from simdist import hardware
from simdist.cluster import ClusterSpec
from simdist.errors import InvalidArgumentError
from simdist.launcher import ClusterFile, read_cluster_file
from simdist.launcher import cluster_file as module

WHOLE = """
seed = 7
numerics = "eager"
restart = "always"
network = "ethernet_1g"
disks = { ps = "hdd" }
time_limit = 100
evaluator_grace = 5.5

[hardware]
worker = "a100"

[jobs]
chief = 1
worker = ["a:1", "b:1"]
ps = { 0 = "p:1", 2 = "q:1" }

[[faults]]
kind = "crash"
task = "worker:1"
after_steps = 25
restart_after = 1.0

[[faults]]
kind = "drop"
source = ["worker:0", "worker:1"]
target = "ps:2"
messages = "update"
at = 0.5
until = 1.0

[output]
trace = "out/trace.json"
summary = "out/summary.txt"
"""


def read(tmp_path: Path, text: str) -> ClusterFile:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return read_cluster_file(path)


def test_whole_file_becomes_a_cluster(tmp_path: Path) -> None:
    file = read(tmp_path, WHOLE)
    assert file.spec == ClusterSpec({"chief": 1, "worker": ["a:1", "b:1"], "ps": {0: "p:1", 2: "q:1"}})
    assert (file.restart, file.time_limit_s, file.evaluator_grace_s) == ("always", 100.0, 5.5)
    assert (file.trace, file.summary) == (Path("out/trace.json"), Path("out/summary.txt"))
    cluster = file.cluster()
    assert (cluster.seed, cluster.numerics, cluster.network) == (7, "eager", hardware.ethernet_1g)
    assert cluster.hardware == {"worker": hardware.a100}
    assert cluster.disks == {"ps": hardware.hdd} and cluster.engine.disk("worker:0").model == hardware.nvme
    assert [fault.describe() for fault in cluster.faults] == [
        "crash('worker:1', after_steps=25)",
        "drop(['worker:0', 'worker:1'], 'ps:2', at=0.5)",
    ]
    assert next(iter(cluster.faults)).figures["restart_after"] == 1.0


def test_file_makes_any_number_of_clusters(tmp_path: Path) -> None:
    file = read(tmp_path, WHOLE)
    assert [len(file.cluster().faults), len(file.cluster(seed=1).faults), len(file.cluster(with_faults=False).faults)] == [2, 2, 0]
    assert file.cluster(seed=1).seed == 1


def test_file_of_jobs_alone_has_the_defaults_of_a_cluster(tmp_path: Path) -> None:
    file = read(tmp_path, "[jobs]\nworker = 2\n")
    assert (file.seed, file.numerics, file.restart, file.hardware, file.network, file.disks) == (0, "deferred", "never", None, None, None)
    assert (file.time_limit_s, file.evaluator_grace_s, list(file.faults), file.trace, file.summary) == (None, 600.0, [], None, None)
    assert file.cluster().tasks == ["chief:0", "worker:0", "worker:1"]


JOBS = "[jobs]\nworker = 2\nevaluator = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"c\.toml: jobs: there is no task\."),
        ("[jobs]\nworker = 0\n", r"jobs: there is no task\."),
        ("jobs = 3\n", r"jobs is 3; expected a table, written as \[jobs\]\."),
        ("sede = 1\n" + JOBS, r"the key 'sede' is not known\. Did you mean 'seed'\?"),
        ("[jobs]\nworkers = 2\n", r"the key 'workers' in \[jobs\] is not known\. Did you mean 'worker'\?"),
        ("[jobs]\nworker = '2'\n", r"jobs\.worker is '2'; expected a number of tasks"),
        ("[jobs]\nworker = true\n", r"jobs\.worker is True; expected a number of tasks"),
        ("[jobs]\nworker = -1\n", r"jobs: .*must not be negative"),
        ("[jobs]\nworker = [5]\n", r"jobs: .*must be text"),
        ("[jobs]\nworker = { x = 'a:1' }\n", r"jobs: .*'x'"),
        ("[jobs]\nchief = 2\n", r"jobs: there must be at most one 'chief' job"),
        ("[jobs]\nworker = 1\nevaluator = 2\n", r"jobs: there must be at most one 'evaluator' job"),
        ("seed = '1'\n" + JOBS, r"seed is '1'; expected a whole number"),
        ("numerics = 'fast'\n" + JOBS, r"numerics is 'fast'; expected one of 'deferred', 'eager'"),
        ("restart = true\n" + JOBS, r"restart is True; expected one of 'never', 'always'"),
        ("time_limit = 'long'\n" + JOBS, r"time_limit is 'long'; expected a number of seconds"),
        ("evaluator_grace = -1\n" + JOBS, r"evaluator_grace is -1; expected a number of seconds"),
        ("output = 'trace.json'\n" + JOBS, r"output is 'trace\.json'; expected a table"),
        (JOBS + '[output]\ntrace = "a\\u0000b"\n', r"output\.trace is 'a\\x00b'; expected a path, without null characters"),
        (JOBS + "[output]\ntraces = 'x'\n", r"the key 'traces' in \[output\] is not known\. Did you mean 'trace'\?"),
        (JOBS + "[output]\ntrace = 5\n", r"output\.trace is 5; expected text"),
        (JOBS + "[faults]\nkind = 'crash'\n", r"faults is .*; expected a list of tables, each written as \[\[faults\]\]"),
        (JOBS + "[[faults]]\ntask = 'worker:1'\n", r"faults\[0\]: .*has no 'kind'"),
        (JOBS + "[[faults]]\nkind = 'crush'\ntask = 'worker:1'\n", r"faults\[0\]: .*Did you mean 'crash'\?"),
        (JOBS + "[[faults]]\nkind = 'crash'\ntask = 'worker:1'\nafter = 3\n", r"faults\[0\]: crash has no figure 'after'"),
        (JOBS + "[[faults]]\nkind = 'crash'\ntask = 'worker:1'\n", r"faults\[0\]: .*exactly one of"),
        (JOBS + "[[faults]]\nkind = 'crash'\ntask = 'worker:1'\nat = 'soon'\n", r"faults\[0\]: at='soon'"),
        (JOBS + "[[faults]]\nkind = 'crash'\ntask = 'worker:2'\nat = 1.0\n", r"faults\[0\]: .*no task 'worker:2'.*Did you mean"),
        (JOBS + "[[faults]]\nkind = 'crash'\ntask = 'chief'\nat = 1.0\n", r"faults\[0\]: .*no task 'chief:0'"),
        (JOBS + "[[faults]]\nkind = 'crash'\ntask = 'evaluator'\nat = 1.0\n[[faults]]\nkind = 'slow'\n", r"faults\[1\]: slow lacks"),
    ],
)
def test_wrong_file_is_refused_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        read(tmp_path, text)
    assert "c.toml: " in str(caught.value)


def test_network_that_does_not_fit_the_tasks_is_refused_with_the_file(tmp_path: Path) -> None:
    file = read(tmp_path, "[jobs]\nworker = 5\n[network]\ntopology = { is = 'Torus', shape = [2, 2] }\n")
    with pytest.raises(InvalidArgumentError, match=r"c\.toml: .*2"):
        file.cluster()


def test_example_in_the_docstring_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    lines = (module.__doc__ or "").splitlines()
    text = "\n".join(line[4:] for line in lines if line.startswith("    "))
    file = read(tmp_path, text)
    assert (file.spec.num_tasks("worker"), len(file.faults)) == (3, 1)
    assert set(tomllib.loads(text)) == set(module.KEYS)
