"""What a session counts as steps is what the log has: no look, no gather, and no step that was undone."""

from __future__ import annotations

import tempfile
from itertools import pairwise

import numpy as np

import simdist as sd
from session_programs import ROWS, model, session_of
from simdist import keras

EPOCHS, STEPS = 5, 4


def restarting(cluster: sd.Cluster) -> dict[str, int]:
    """Launched mains that train together, save at the end of each epoch, and begin again from there."""
    folder = tempfile.mkdtemp()

    def main() -> int:
        with sd.MultiWorkerMirroredStrategy().scope():
            net = model()
        net.fit(ROWS.batch(12), epochs=EPOCHS, verbose=0, callbacks=[keras.callbacks.BackupAndRestore(folder)])
        return int(net.optimizer.iterations)

    run = cluster.launch(main, restart="always")
    run.join()
    return run.results


def looking(cluster: sd.Cluster) -> None:
    """A loop of launched mains that looks after each step at a variable that all of them add up for."""

    def main() -> list[float]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            kinds = {"synchronization": sd.VariableSynchronization.ON_READ, "aggregation": sd.VariableAggregation.SUM}
            w = sd.Variable(np.zeros((), np.float32), name="w", **kinds)

        @sd.function
        def step() -> None:
            strategy.run(lambda: w.assign_add(1.0))

        seen: list[float] = []
        for _ in range(3):
            step()
            seen.append(float(w.numpy()))
        return seen

    run = cluster.launch(main)
    run.join()
    assert run.results["worker:1"] == [2.0, 4.0, 6.0]


def logged(session: sd.Session) -> int:
    return sum(len(ends_s) for ends_s in session.trace.steps.values())


def test_looks_and_gathers_of_mains_that_fit_are_no_steps() -> None:
    session = sd.Session(restarting, sd.Cluster({"worker": 2}, seed=3))
    session.advance(steps=2)
    assert session.steps == logged(session) == 2
    session.advance()
    assert session.steps == logged(session) == 2 * EPOCHS * STEPS
    assert len(session.progress_s) == EPOCHS * STEPS
    for part, repeated in ((0.12, 1), (0.35, 4)):
        broken = session.fork(part * session.now)
        command = broken.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.0005})
        assert command is not None
        broken.advance()
        assert broken.result == {"worker:0": EPOCHS * STEPS, "worker:1": EPOCHS * STEPS}
        computed = len(broken.trace.spans.where("worker:0", "compute", "train_step"))
        assert sd.recovery(broken, command).repeated_steps == computed - EPOCHS * STEPS == repeated


def test_looks_of_a_loop_of_mains_are_no_steps() -> None:
    session = sd.Session(looking, sd.Cluster({"worker": 2}, seed=3))
    session.advance()
    assert session.steps == logged(session) == 2 * 3


def test_step_that_was_undone_counts_no_more() -> None:
    session = session_of("survivors")
    session.advance(steps=1)  # the others have not ended theirs
    session.inject({"kind": "crash", "task": "worker:2", "restart_after": 0.001})
    counts: list[int] = []
    while session.state == "paused":
        assert session.steps == logged(session)
        counts.append(session.steps)
        session.advance(events=1)
    assert any(later < earlier for earlier, later in pairwise(counts)), "a step was undone"


def test_steps_count_also_where_no_spans_are_recorded() -> None:
    session = sd.Session(looking, sd.Cluster({"worker": 2}, seed=3))
    session.cluster.trace.enabled = False
    session.advance(steps=2)
    assert (session.steps, session.state) == (2, "paused")
