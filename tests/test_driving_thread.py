"""One thread drives virtual time: a second one is refused before anything of the process is swapped."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError

LONG_S = 20.0  # of a wait that ends as soon as the other thread has come so far


def in_thread(work: Callable[[], object]) -> BaseException | None:
    """What the work raises in a thread of its own."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LONG_S)
    assert not thread.is_alive()
    return found[0] if found else None


def advance_another() -> None:
    sd.Session(lambda cluster: sd.sleep(1.0, cluster), sd.Cluster({"worker": 1})).advance()


def sleep_on_another() -> None:
    sd.sleep(1.0, sd.Cluster({"worker": 1}))


def open_a_scope() -> None:
    with sd.OneDeviceStrategy("cpu:0").scope():
        pass


@pytest.mark.parametrize("call", [advance_another, sleep_on_another, open_a_scope])
@pytest.mark.parametrize("driven", ["a session", "a cluster"])
def test_a_second_thread_is_refused_while_one_drives(driven: str, call: Callable[[], None]) -> None:
    refused: list[BaseException | None] = []

    def program(cluster: sd.Cluster) -> list[bool]:
        stdout = sys.stdout
        run = cluster.launch(lambda: refused.append(in_thread(call)))
        run.join()
        return [sys.stdout is stdout]

    before = sys.stdout
    if driven == "a session":
        session = sd.Session(program, sd.Cluster({"worker": 1}))
        session.advance()
        assert session.result == [True]
    else:
        assert program(sd.Cluster({"worker": 1})) == [True]
    assert isinstance(refused[0], FailedPreconditionError) and "one thread in a process" in str(refused[0])
    assert sys.stdout is before


def test_threads_may_drive_one_after_the_other_also_while_a_session_stands_still() -> None:
    session = sd.Session(lambda cluster: [sd.sleep(1.0) for _ in range(3)], sd.Cluster({"worker": 1}))
    session.advance(until=1.5)
    for call in (advance_another, sleep_on_another, open_a_scope):
        assert in_thread(call) is None
    session.advance()
    assert (session.state, session.now) == ("finished", 3.0)
    assert in_thread(advance_another) is None


def test_a_step_that_a_closure_takes_in_another_thread_is_refused_before_it_begins() -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    with coordinator.strategy.scope():
        v = sd.Variable(0.0)
    step = sd.function(lambda: v.assign_add(1.0))
    refused = coordinator.schedule(lambda: repr(in_thread(step)))
    coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.join()
    assert "from another thread" in refused.fetch() and float(v) == 0.0
    coordinator.schedule(step)
    coordinator.join()
    assert float(v) == 1.0


@pytest.mark.parametrize("options", [None, sd.CheckpointOptions(enable_async=True)], ids=["at once", "beside the program"])
def test_a_checkpoint_of_another_thread_is_refused_before_it_begins(tmp_path: Path, options: sd.CheckpointOptions | None) -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        checkpoint = sd.Checkpoint(v=sd.Variable(1.0))
    refused = in_thread(lambda: checkpoint.save(str(tmp_path / "ckpt"), options))
    assert isinstance(refused, FailedPreconditionError) and "from another thread" in str(refused)
    sd.sleep(10.0, strategy.cluster)
    assert list(tmp_path.iterdir()) == [] and checkpoint.save_counter == 0
    assert checkpoint.save(str(tmp_path / "ckpt"), options) == str(tmp_path / "ckpt-1")
    checkpoint.sync()
    strategy.cluster.close()
    with pytest.raises(FailedPreconditionError, match="after the cluster was closed"):
        checkpoint.save(str(tmp_path / "ckpt"))
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]


def test_a_scope_that_another_thread_has_open_is_no_place_to_open_one() -> None:
    strategy = sd.MirroredStrategy(2)

    def nest() -> None:
        with strategy.scope():
            pass

    with strategy.scope():
        for opens in (nest, open_a_scope):
            error = in_thread(opens)
            assert isinstance(error, FailedPreconditionError)
            assert "Another thread has the scope of MirroredStrategy open" in str(error)
        assert sd.get_strategy() is strategy
        nest()
    assert in_thread(nest) is None and not sd.has_strategy()
