"""Conformance cases B003, B020 and B021 (servers, and one program for all roles), and C20 (an evaluator in both forms)."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

ROLES = ["worker", "ps", "evaluator", "chief"]
SPEC = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}


def coordinate(resolver: sd.TFConfigClusterResolver, closures: int = 5) -> float:
    """The branch of the coordinator: closures on workers that add to a variable on the parameter server."""
    strategy = sd.ParameterServerStrategy(resolver)
    with strategy.scope():
        total = sd.Variable(np.zeros(3, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(closures):
        coordinator.schedule(sd.function(lambda: total.assign_add(np.ones(3, np.float32))))
    coordinator.join()
    assert strategy.cluster_resolver is resolver
    return float(total.numpy()[0])


def program() -> Any:
    """The tutorial's program for all roles."""
    resolver = sd.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        os.environ["GRPC_FAIL_FAST"] = "use_caller"
        server = sd.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol=resolver.rpc_layer or "grpc",
            start=True,
        )
        server.join()
        return "never"  # pyright: ignore
    if resolver.task_type == "evaluator":
        sd.sleep(1.0)
        return "evaluated"
    return coordinate(resolver)


# -- B003: servers ----------------------------------------------------------------------------------------------------


def test_b003_server_of_a_spec_with_several_jobs_or_tasks() -> None:
    spec = {"worker": ["a:1", "b:2"], "ps": ["c:3"]}
    with pytest.raises(ValueError, match="job_name"):
        sd.Server(spec)
    with pytest.raises(ValueError, match="task_index"):
        sd.Server({"worker": ["a:1", "b:2"]})
    with pytest.raises(ValueError, match="No such job"):
        sd.Server(spec, "chief", 0)
    assert sd.Server(spec, "worker", 1).target == "grpc://b:2"
    assert sd.Server(spec, "worker", 1, protocol="http").target == "http://b:2"


def test_b003_local_server() -> None:
    server = sd.Server.create_local_server()
    assert server.target.startswith("grpc://localhost:") and server.target.rpartition(":")[2].isdecimal()
    assert (server.job_name, server.task_index) == ("localhost", 0)


def test_b003_server_that_was_not_started_is_not_joined() -> None:
    server = sd.Server({"worker": 1}, start=False)
    with pytest.raises(FailedPreconditionError, match=r"start\(\) before"):
        server.join()
    server.start()
    with pytest.raises(FailedPreconditionError, match="not in a cell"):
        server.join()
    with pytest.raises(TypeError, match="protocol"):
        sd.Server({"worker": 1}, protocol=7)  # pyright: ignore
    with pytest.raises(InvalidArgumentError, match="protocol is empty"):
        sd.Server({"worker": 1}, protocol="")


# -- B020: a cluster in this process ----------------------------------------------------------------------------------


def create_in_process_cluster(num_workers: int, num_ps: int) -> sd.SimpleClusterResolver:
    """The tutorial's helper: servers of this process; ports are made up, so nothing picks them."""
    spec = sd.ClusterSpec({"worker": num_workers, "ps": num_ps})
    config = {"inter_op_parallelism_threads": num_workers + 1}
    for index in range(num_workers):
        sd.Server(spec, job_name="worker", task_index=index, config=config, protocol="grpc")
    for index in range(num_ps):
        sd.Server(spec, job_name="ps", task_index=index, protocol="grpc")
    return sd.SimpleClusterResolver(spec, rpc_layer="grpc")


def test_b020_in_process_cluster_of_the_tutorial() -> None:
    resolver = create_in_process_cluster(3, 2)
    spec = resolver.cluster_spec()
    for job, count in (("worker", 3), ("ps", 2)):
        assert len({address.rpartition(":")[2] for address in spec.job_tasks(job) if address}) == count
    assert resolver.rpc_layer == sd.Cluster(spec).resolver.rpc_layer == "grpc"


# -- B021: one program for all roles ----------------------------------------------------------------------------------


def test_b021_one_program_for_all_roles_runs_on_every_task() -> None:
    with sd.Cluster(SPEC) as cluster:
        run = cluster.launch(program, job=ROLES)
        run.join()
        assert run.results == {"chief:0": 5.0}
        assert cluster.now < 1.0  # the evaluator, which sleeps for a second, was not waited for


def test_b021_one_launch_for_each_job_ends_the_servers_with_the_chief() -> None:
    with sd.Cluster(SPEC) as cluster:
        runs = {job: cluster.launch(program, job=job) for job in ROLES}
        for run in runs.values():
            run.join()
    assert (runs["worker"].results, runs["ps"].results) == ({}, {})
    assert (runs["chief"].results, runs["evaluator"].results) == ({"chief:0": 5.0}, {"evaluator:0": "evaluated"})


def test_b021_servers_do_not_end_while_another_main_works() -> None:
    ended: list[float] = []

    def main() -> None:
        resolver = sd.TFConfigClusterResolver()
        try:
            if resolver.task_type == "ps":
                sd.Server(resolver.cluster_spec(), "ps", 0).join()
            sd.sleep(2.0 if resolver.task_type == "worker" else 1.0)
        finally:
            if resolver.task_type == "ps":
                ended.append(cluster.now)

    with sd.Cluster({"chief": 1, "worker": 1, "ps": 1}) as cluster:
        cluster.launch(main, job=["chief", "worker", "ps"]).join()
    assert ended == [2.0]


def test_b021_server_that_starts_again_is_at_work_until_it_serves() -> None:
    began: list[float] = []

    def main() -> None:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type == "worker":
            sd.sleep(1.0)
            began.append(cluster.now)
            sd.Server(resolver.cluster_spec(), "worker", 0).join()
        sd.sleep(2.0)

    with sd.Cluster({"chief": 1, "worker": 1}) as cluster:
        cluster.faults.crash("worker:0", at=1.5, restart_after=0.25)
        cluster.launch(main, job=["chief", "worker"], restart="always").join()
    assert began == [1.0, 2.75]


def test_b021_crashed_server_comes_back_and_the_program_ends() -> None:
    with sd.Cluster(SPEC) as cluster:
        cluster.faults.crash("worker:1", at=1e-6, restart_after=1e-5)
        run = cluster.launch(program, job=ROLES, restart="always")
        run.join()
        assert (run.results, run.restarts["worker:1"]) == ({"chief:0": 5.0}, 1)


@pytest.mark.parametrize("restart", ["never", "always"])
@pytest.mark.parametrize("restart_after", [None, 1e-5])
def test_b021_crash_of_a_worker_that_serves_is_no_failure_of_the_run(restart: str, restart_after: float | None) -> None:
    with sd.Cluster(SPEC) as cluster:
        cluster.faults.crash("worker:1", at=1e-6, restart_after=restart_after)
        run = cluster.launch(program, job=ROLES, restart=restart)
        run.join()
        assert run.results == {"chief:0": 5.0}


def test_b021_crashed_chief_runs_again_with_a_new_coordinator() -> None:
    with sd.Cluster(SPEC) as cluster:
        cluster.faults.crash("chief", at=1e-4, restart_after=0.1)
        run = cluster.launch(program, job=ROLES, restart="always")
        run.join()
        assert (run.results, run.restarts["chief:0"]) == ({"chief:0": 5.0}, 1)
        assert cluster.now > 0.1


def test_b021_crashed_chief_without_restart_ends_the_run() -> None:
    with sd.Cluster(SPEC) as cluster:
        cluster.faults.crash("chief", at=1e-4)
        run = cluster.launch(program, job=ROLES)
        with pytest.raises(UnavailableError, match="chief:0 crashed"):
            run.join()


def test_b021_servers_without_a_chief_say_who_waits() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        run = cluster.launch(program, job=["worker", "ps"])
        with pytest.raises(sd.errors.DeadlineExceededError, match=r"worker:0, worker:1, ps:0 wait in Server\.join\(\)"):
            run.join()


def test_b021_notebook_coordinates_while_mains_serve() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        cluster.launch(program, job=["worker", "ps"])
        strategy = sd.ParameterServerStrategy(cluster)
        assert sd.ClusterCoordinator(strategy).schedule(lambda: 7).fetch() == 7


def test_b021_strategy_on_a_task_that_serves_is_refused() -> None:
    def main() -> None:
        sd.ParameterServerStrategy(sd.TFConfigClusterResolver())

    with sd.Cluster(SPEC) as cluster, pytest.raises(InvalidArgumentError, match="worker:0 serves, and cannot coordinate"):
        cluster.launch(main).join()


def test_b021_resolver_of_another_cluster_is_refused() -> None:
    def main() -> None:
        sd.ParameterServerStrategy(sd.SimpleClusterResolver(sd.ClusterSpec({"worker": 7, "ps": 1}), "chief", 0))

    with sd.Cluster(SPEC) as cluster, pytest.raises(InvalidArgumentError, match="but this main was launched on"):
        cluster.launch(main, job="chief").join()


def test_b021_resolver_of_no_cluster_is_refused_in_a_notebook() -> None:
    with pytest.raises(InvalidArgumentError, match="ParameterServerStrategy needs an"):
        sd.ParameterServerStrategy(create_in_process_cluster(1, 1))


@pytest.mark.parametrize("job", [7, [], ["worker", 7]])
def test_b021_wrong_jobs_are_refused(job: Any) -> None:
    with pytest.raises(TypeError, match="the name of a job"):
        sd.Cluster(SPEC).launch(print, job=job)
    with pytest.raises(InvalidArgumentError, match=r"No such job.*Did you mean 'worker'"):
        sd.Cluster(SPEC).launch(print, job=["chief", "wroker"])


@pytest.mark.parametrize("ps", [{0: "p:1", 2: "q:1"}, ["p:1", "q:1"]])
def test_b021_program_runs_on_a_spec_with_addresses_and_holes(ps: Any) -> None:
    with sd.Cluster({"chief": ["c:1"], "worker": ["a:1", "b:1"], "ps": ps}) as cluster:
        run = cluster.launch(program, job=["chief", "worker", "ps"])
        run.join()
    assert run.results == {"chief:0": 5.0}


def train_together(steps: int) -> tuple[str | None, float]:
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = sd.Variable(np.zeros(3, np.float32), aggregation=sd.VariableAggregation.SUM)
    step = sd.function(lambda: strategy.run(lambda: weight.assign_add(np.ones(3, np.float32))))
    for _ in range(steps):
        step()
    return strategy.cluster_resolver.task_type, float(np.asarray(weight.value)[0])


@pytest.mark.parametrize("crashed", [None, "chief", "worker:1"])
def test_b021_chief_and_workers_train_together(crashed: str | None) -> None:
    with sd.Cluster({"chief": 1, "worker": 2}) as cluster:
        if crashed is not None:
            cluster.faults.crash(crashed, after_steps=3, restart_after=0.5)
        run = cluster.launch(train_together, job=["chief", "worker"], restart="always", args=(5,))
        run.join()
    assert run.results == {"chief:0": ("chief", 15.0), "worker:0": ("worker", 15.0), "worker:1": ("worker", 15.0)}
    assert set(run.restarts.values()) == {0 if crashed is None else 1}


# -- C20: evaluators --------------------------------------------------------------------------------------------------


def in_config(cluster: dict[str, Any], job: str, index: int = 0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


@pytest.mark.parametrize("jobs", [{"worker": ["a:1", "b:1"]}, {"worker": ["a:1", "b:1"], "evaluator": ["e:1"]}])
def test_c20_evaluator_is_accepted_with_and_without_a_place_in_the_cluster(jobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", in_config(jobs, "evaluator"))
    resolver = sd.TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id) == ("evaluator", 0)
    assert resolver.master() == ("e:1" if "evaluator" in jobs else "")
    with pytest.raises(InvalidArgumentError, match="does not train"):
        sd.MultiWorkerMirroredStrategy(resolver)


def steps() -> float:
    strategy = sd.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        weight = sd.Variable(np.zeros(3, np.float32), aggregation=sd.VariableAggregation.SUM)
    sd.function(lambda: strategy.run(lambda: weight.assign_add(np.ones(3, np.float32))))()
    return float(np.asarray(weight.value)[0])


def test_c20_workers_train_though_no_evaluator_ever_starts() -> None:
    with sd.Cluster({"worker": 2, "evaluator": 1}) as cluster:
        run = cluster.launch(steps)
        run.join()
    assert run.results == {"worker:0": 2.0, "worker:1": 2.0}


@pytest.mark.parametrize("ending", ["crash", "for ever", "an error after the end"])
def test_c20_run_does_not_wait_for_its_evaluator(ending: str) -> None:
    def main() -> float | None:
        if sd.TFConfigClusterResolver().task_type != "evaluator":
            return steps()
        sd.sleep(1000.0)
        raise KeyError("after the end")

    with sd.Cluster({"worker": 2, "evaluator": 1}) as cluster:
        if ending == "crash":
            cluster.faults.crash("evaluator", at=1e-6)
        run = cluster.launch(main, job=["worker", "evaluator"])
        run.join()
        assert cluster.now < 1.0
    assert run.results == {"worker:0": 2.0, "worker:1": 2.0}


@pytest.mark.parametrize("restart", ["never", "always"])
def test_c20_evaluator_that_looks_for_ever_keeps_no_run_alive(restart: str) -> None:
    def main() -> None:
        while sd.TFConfigClusterResolver().task_type == "evaluator":
            sd.sleep(0.01)
        steps()

    with sd.Cluster({"worker": 2, "evaluator": 1}) as cluster:
        cluster.faults.crash("worker:1", at=1e-6)
        with pytest.raises(UnavailableError, match="worker:1 crashed"):
            cluster.launch(main, job=["worker", "evaluator"], restart=restart).join()


def test_c20_crashed_evaluator_starts_again() -> None:
    def main() -> float:
        sd.sleep(1.0)
        return cluster.now

    with sd.Cluster({"worker": 1, "evaluator": 1}) as cluster:
        cluster.faults.crash("evaluator", at=0.5, restart_after=0.25)
        run = cluster.launch(main, job="evaluator", restart="always")
        run.join()
    assert (run.results, run.restarts) == ({"evaluator:0": 1.75}, {"evaluator:0": 1})


def test_c20_coordinator_takes_a_resolver_that_leaves_the_evaluator_out() -> None:
    def main() -> float | None:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type != "chief":
            sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        spec = {job: tasks for job, tasks in resolver.cluster_spec().as_dict().items() if job != "evaluator"}
        os.environ["TF_CONFIG"] = in_config(spec, "chief")
        return coordinate(resolver)

    with sd.Cluster(SPEC) as cluster:
        run = cluster.launch(main, job=["chief", "worker", "ps"])
        run.join()
    assert run.results == {"chief:0": 5.0}
