"""Who takes part: replicas on devices, their tasks, and which of them one program drives."""

from __future__ import annotations

import simdist as sd


def test_replicas_are_members_by_rank_with_their_devices_and_tasks() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    assert [member.rank for member in strategy.members] == [0, 1]
    assert strategy.devices == strategy.parameter_devices == [member.device for member in strategy.members]
    assert (strategy.num_replicas_in_sync, strategy.num_workers, strategy.workers_at_first) == (2, 1, 1)
    assert strategy.local_members == strategy.members
    assert (strategy.ranks, strategy.local_rank_of(1)) == (range(2), 1)


def test_one_program_that_drives_several_workers_drives_their_tasks() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}))
    assert strategy.driven_tasks[-3:] == ["worker:0", "worker:1", "worker:2"]
    assert (strategy.launched, strategy.worker_index, strategy.task_name) == (False, 0, None)


def test_a_launched_main_drives_the_replica_of_its_task() -> None:
    def main() -> tuple[str | None, int, list[str], int]:
        strategy = sd.MultiWorkerMirroredStrategy()
        return strategy.task_name, strategy.ranks.start, strategy.driven_tasks, strategy.num_replicas_in_sync

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    assert sorted(run.results.values()) == [("worker:0", 0, ["worker:0"], 2), ("worker:1", 1, ["worker:1"], 2)]
