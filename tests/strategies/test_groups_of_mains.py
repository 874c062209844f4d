"""Which strategies of launched mains form a group, where one of the mains starts again."""

from __future__ import annotations

import json
import os

import jax.numpy as jnp
import pytest

import simdist as sd


def all_reduced() -> float:
    strategy = sd.MultiWorkerMirroredStrategy()
    results = strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.float32(1.0)))
    return float(strategy.local_results(results)[0])


@pytest.mark.parametrize("end_s", [2.5, 2.95], ids=["and the other knows", "a moment ago"])
@pytest.mark.parametrize("dies", [True, False])
def test_a_second_strategy_is_no_partner_of_the_first_one_of_a_main_that_has_started_again(dies: bool, end_s: float) -> None:
    begun: list[tuple[int, str]] = []

    def main() -> float:
        task_id = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        begun.append((task_id, "first"))
        total = all_reduced()
        if not dies and begun.count((0, "first")) == 1 and task_id == 0:
            sd.sleep(end_s - cluster.now)
            raise sd.errors.UnavailableError("once")
        sd.sleep(max(1.0, 3.0 - cluster.now))
        begun.append((task_id, "second"))
        return total + all_reduced()

    cluster = sd.Cluster({"worker": 2}, network=sd.hardware.Network(latency=0.2))
    if dies:
        cluster.faults.crash("worker:0", at=end_s, restart_after=0.01)
    run = cluster.launch(main, restart="always")
    run.join()
    assert run.results == {"worker:0": 4.0, "worker:1": 4.0} and run.restarts == {"worker:0": 1, "worker:1": 1}
    assert [name for task_id, name in begun if task_id == 1] == ["first", "second", "first", "second"]


def test_a_main_that_has_got_the_error_of_its_strategy_may_make_another_one() -> None:
    def main() -> float:
        try:
            all_reduced()
            sd.sleep(1.0)
            return all_reduced()
        except sd.errors.UnavailableError as error:
            assert "worker:1 has no partner for another strategy" in str(error) and "worker:0 died" in str(error)
            return all_reduced() + all_reduced()

    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:0", at=0.5, restart_after=0.1)
    run = cluster.launch(main, restart="always")
    run.join()
    assert run.results == {"worker:0": 2.0, "worker:1": 4.0} and run.restarts == {"worker:0": 1, "worker:1": 0}
