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
