"""The load of servers: updates, staleness, busy time and bytes, each server by itself."""

from __future__ import annotations

from typing import Any

import simdist as sd
from simdist import keras
from simdist.trace import Trace, format_summary


def two_servers() -> Trace:
    """ps:0 applies two updates, which overlap, ps:1 one; ps:2 does nothing."""
    trace = Trace()
    trace.declare_lane("ps:2")
    trace.span("ps:0", "apply", "sgd", 0.0, 2.0, worker="worker:0", read_version=0, version=1)
    trace.span("ps:1", "apply", "sgd", 0.0, 1.0, worker="worker:0", read_version=0, version=1)
    trace.span("ps:0", "apply", "sgd", 1.0, 3.0, worker="worker:1", read_version=0, version=4)
    trace.span("worker:0", "compute", "step", 0.0, 4.0)
    return trace


def test_updates_and_staleness_are_those_of_each_server() -> None:
    servers = two_servers().summary()["servers"]
    found = {name: (row["updates"], row["mean_staleness"], row["max_staleness"]) for name, row in servers.items()}
    assert found == {"ps:2": (0, None, None), "ps:0": (2, 1.5, 3), "ps:1": (1, 0.0, 0)}


def test_updates_that_overlap_count_once_as_busy() -> None:
    server = two_servers().summary()["servers"]["ps:0"]
    assert (server["busy_s"], server["utilisation"]) == (3.0, 0.75)


def test_a_run_without_servers_has_none() -> None:
    trace = Trace()
    trace.span("worker:0", "apply", "sgd", 0.0, 1.0, worker="worker:0")
    assert trace.summary()["servers"] == {}


def test_a_server_that_shares_its_port_does_not_know_what_it_received() -> None:
    trace = two_servers()
    trace.total("ps:0", "bytes_sent", 8)
    trace.total("ps:1/in", "link_bytes", 16)
    servers = trace.summary()["servers"]
    assert [(row["bytes_received"], row["bytes_sent"]) for row in servers.values()] == [(0, 0), (None, 8), (16, 0)]


def trained(cluster: sd.Cluster, steps: int = 6) -> dict[str, Any]:
    """What servers did in a run that adds to a variable of 8 floats on ps:0."""
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable([0.0] * 8, name="v")

    @sd.function
    def step() -> None:
        v.assign_add(v.value + 1.0)

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(steps):
        coordinator.schedule(step)
    coordinator.join()
    return cluster.trace.summary()["servers"]


def test_bytes_of_a_run_are_those_of_its_reads_and_updates() -> None:
    servers = trained(sd.Cluster({"worker": 2, "ps": 2}))
    found = {name: (row["updates"], row["bytes_received"], row["bytes_sent"]) for name, row in servers.items()}
    assert found == {"ps:0": (6, 6 * 32, 6 * 32), "ps:1": (0, 0, 0)}


def test_updates_of_no_rows_bring_no_bytes_and_that_is_known() -> None:
    """Momentum changes the whole shard of ps:1, also where a step has looked none of its rows up."""
    cluster = sd.Cluster({"worker": 1, "ps": 2}, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable([[0.0]] * 8, name="table")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1, momentum=0.9))

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(step, args=([1, 2],))
    coordinator.join()
    summary = cluster.trace.summary()
    found = {name: (row["updates"], row["bytes_received"], row["bytes_sent"]) for name, row in summary["servers"].items()}
    assert found == {"ps:0": (1, 24, 24), "ps:1": (1, 0, 0)}
    assert "ps:1/in" not in summary["links"]


def test_the_report_has_a_line_for_each_server_where_any_applied_updates() -> None:
    trace = two_servers()
    lines = [line for line in format_summary(trace.summary()).splitlines() if line.startswith(("server ", "ps:0    2 "))]
    assert lines == [
        "server  updates  staleness  largest  applied_s  applying  bytes_received  bytes_sent",
        "ps:0    2        1.50       3        3.000000   75.0 %    -               0",
    ]


def test_the_report_of_many_servers_names_those_with_most_updates() -> None:
    trace = Trace()
    for server in range(20):
        for _ in range(server):
            trace.span(f"ps:{server}", "apply", "sgd", 0.0, 1.0)
    text = format_summary(trace.summary())
    assert "and 3 others with fewer updates" in text
    assert "ps:19   19 " in text
    assert "ps:2    2 " not in text
