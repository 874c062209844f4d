"""A preemption handler that is made again on the same checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


def test_a_second_handler_of_one_checkpoint_counts_on_and_saves_its_count(tmp_path: Path) -> None:
    checkpoint = sd.Checkpoint(v=sd.Variable(0.0))
    first = sd.PreemptionCheckpointHandler(None, checkpoint, tmp_path)
    for _ in range(3):
        first.run(lambda: None)
    first.manager.save()
    second = sd.PreemptionCheckpointHandler(None, checkpoint, tmp_path)
    assert second.total_run_calls == 3
    second.run(lambda: None)
    second.manager.save()
    third = sd.PreemptionCheckpointHandler(None, sd.Checkpoint(v=sd.Variable(0.0)), tmp_path)
    assert third.total_run_calls == second.total_run_calls == 4


def test_an_object_of_the_users_own_with_the_name_of_the_count_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'preemption_calls', a Variable"):
        sd.PreemptionCheckpointHandler(None, sd.Checkpoint(preemption_calls=sd.Variable(0.0)), tmp_path)


@pytest.mark.parametrize("has_variable", [True, False], ids=["in no scope", "plain data"])
def test_the_users_function_is_asked_every_second_where_nothing_belongs_to_a_strategy(has_variable: bool, tmp_path: Path) -> None:
    asked: list[float] = []
    with sd.Cluster({"worker": 1}) as cluster:

        def is_taken() -> bool:
            asked.append(cluster.now)
            return cluster.now >= 3.0

        config = sd.TerminationConfig(termination_watcher_fn=is_taken, exit_fn=lambda: None)
        checkpoint = sd.Checkpoint(v=sd.Variable(0.0)) if has_variable else sd.Checkpoint()
        handler = sd.PreemptionCheckpointHandler(None, checkpoint, tmp_path, config)
        while handler.manager.latest_checkpoint is None and cluster.now < 10.0:
            handler.run(sd.sleep, 0.5)
    assert asked == [0.0, 1.0, 2.0, 3.0]
    assert handler.total_run_calls == 7
