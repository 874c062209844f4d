"""How far a training has come, of logs written by hand, and of a run whose only process died."""

from __future__ import annotations

import tempfile

import pytest

import simdist as sd
from session_programs import ROWS, model
from simdist import keras
from simdist.session.progress import steps_of_training_s
from simdist.trace import Trace


def steps(trace: Trace, task: str, *ends_s: float) -> None:
    for end_s in ends_s:
        trace.step_ended(task, end_s)


def restart(trace: Trace, task: str, time_s: float) -> None:
    trace.instant(task, "restart", f"restart of {task}", time_s)


def test_no_steps_are_no_progress() -> None:
    assert steps_of_training_s(Trace(seed=0)) == []


def test_first_of_the_tasks_to_come_further_counts() -> None:
    trace = Trace(seed=0)
    steps(trace, "worker:0", 1.0, 2.5, 3.0)
    steps(trace, "worker:1", 1.5, 2.0, 3.5, 4.5)
    assert steps_of_training_s(trace) == [1.0, 2.0, 3.0, 4.5]


def test_process_that_starts_again_begins_with_none_and_one_that_reads_with_what_was_saved() -> None:
    trace = Trace(seed=0)
    steps(trace, "worker:0", 1.0, 2.0)
    trace.span("worker:0", "checkpoint", "write backup-1", 2.0, 2.5)
    steps(trace, "worker:0", 3.0)
    restart(trace, "worker:0", 4.0)
    trace.span("worker:0", "checkpoint", "read backup-1", 4.0, 4.5)
    steps(trace, "worker:0", 5.0, 6.0)
    assert steps_of_training_s(trace) == [1.0, 2.0, 3.0, 6.0], "the third is taken again at 5 s"
    restart(trace, "worker:0", 7.0)
    steps(trace, "worker:0", 8.0)
    assert steps_of_training_s(trace) == [1.0, 2.0, 3.0, 6.0]
    trace.span("worker:0", "checkpoint", "read of another run", 8.0, 8.5)
    steps(trace, "worker:0", 9.0, 10.0, 11.0, 12.0)
    assert steps_of_training_s(trace) == [1.0, 2.0, 3.0, 6.0, 12.0]


def test_chief_takes_the_tasks_along_and_saves_what_was_there_before_parts_were_gathered() -> None:
    trace = Trace(seed=0)
    steps(trace, "worker:1", 1.0, 2.0)
    gather = trace.span("chief:0", "checkpoint", "gather backup-1", 1.5, 2.0)
    trace.span("chief:0", "checkpoint", "write backup-1", 2.0, 3.0, cause=gather)
    steps(trace, "worker:0", 1.25)
    restart(trace, "worker:0", 4.0)
    trace.span("chief:0", "checkpoint", "read backup-1", 4.0, 5.0)
    steps(trace, "worker:0", 6.0, 7.0, 8.0)
    steps(trace, "worker:1", 6.5, 7.5, 8.5)
    assert steps_of_training_s(trace) == [1.0, 2.0, 7.0, 8.0]


def test_evaluator_that_reads_is_no_progress_of_the_training() -> None:
    trace = Trace(seed=0)
    steps(trace, "worker:0", 1.0)
    trace.span("worker:0", "checkpoint", "write model-1", 1.0, 1.5)
    trace.span("evaluator:0", "checkpoint", "read model-1", 1.5, 2.0)
    steps(trace, "evaluator:0", 3.0, 4.0)
    steps(trace, "worker:0", 5.0)
    assert steps_of_training_s(trace) == [1.0, 5.0]


def alone(cluster: sd.Cluster) -> dict[str, int]:
    """A main of one worker, which saves at the end of each epoch of four steps."""
    folder = tempfile.mkdtemp()

    def main() -> int:
        with sd.OneDeviceStrategy().scope():
            net = model()
        net.fit(ROWS.batch(12), epochs=5, verbose=0, callbacks=[keras.callbacks.BackupAndRestore(folder)])
        return int(net.optimizer.iterations)

    run = cluster.launch(main, restart="always")
    run.join()
    return run.results


def test_run_whose_only_process_died_has_come_all_the_way() -> None:
    whole = sd.Session(alone, sd.Cluster({"worker": 1}, seed=3))
    whole.advance()
    session = whole.fork(whole.now / 2)
    command = session.inject({"kind": "crash", "task": "worker:0", "restart_after": 0.01})
    assert command is not None
    session.advance()
    assert session.result == {"worker:0": 20} and session.steps == 21
    story = sd.recovery(session, command)
    assert (story.units, story.units_without, story.repeated_steps) == (20, 20, 1)
    assert dict(story.rows())["repeated"] == "1 step"
    assert "came to" not in str(story)
    costs_s = {phase.name: phase.cost_s for phase in story.phases}
    assert costs_s["restoration"] == pytest.approx(0.01)
    step_s = whole.progress_s[1] - whole.progress_s[0]
    assert 0.0 <= costs_s["catching up"] + costs_s["afterwards"] <= 3 * step_s, (
        "the step that is taken again, and what was lost of the next"
    )
