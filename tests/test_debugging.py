"""Debugging: clusters compute at once, the first failure stops the notebook, and the report names the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import debugging


@pytest.fixture(autouse=True)
def switch() -> Iterator[None]:
    yield
    debugging._switch.clear()


def coordinator_of(cluster: sd.Cluster) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def fail_on_purpose() -> None:
    raise ValueError("on purpose")


def test_debugging_makes_clusters_eager_and_leaves_timing_only_alone() -> None:
    with sd.debug():
        assert sd.Cluster({"worker": 1, "ps": 1}).numerics == "eager"
        assert sd.Cluster({"worker": 1, "ps": 1}, numerics="off").numerics == "off"
    assert sd.Cluster({"worker": 1, "ps": 1}).numerics == "deferred"


def test_environment_switches_debugging_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMDIST_DEBUG", "1")
    assert debugging.is_on()
    with sd.debug(False):
        assert not debugging.is_on()
    monkeypatch.setenv("SIMDIST_DEBUG", "0")
    debugging._switch.clear()
    assert not debugging.is_on()


def test_report_names_closure_worker_time_and_the_users_line(capsys: pytest.CaptureFixture[str]) -> None:
    sd.debug()
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster)
        coordinator.schedule(lambda: 1)
        coordinator.schedule(fail_on_purpose)
        with pytest.raises(ValueError, match="on purpose") as caught:
            coordinator.join()
    said = capsys.readouterr().err
    assert "closure 1 failed on worker:1 (incarnation 0) at 0.000050000 s of virtual time" in said
    assert "test_debugging.py" in said and 'raise ValueError("on purpose")' in said
    assert said.count("closure 1 failed") == 1
    assert any("closure 1 failed on worker:1" in note for note in caught.value.__notes__)


def test_failure_stops_the_notebook_before_the_chief_hears_of_it() -> None:
    def time_of_failure(on: bool) -> float:
        with sd.debug(on), sd.Cluster({"worker": 1, "ps": 1}) as cluster:
            coordinator = coordinator_of(cluster)
            coordinator.schedule(fail_on_purpose)
            with pytest.raises(ValueError, match="on purpose"):
                coordinator.join()
            return cluster.now

    assert time_of_failure(True) == pytest.approx(50e-6)
    assert time_of_failure(False) == pytest.approx(100e-6)


def test_report_counts_the_steps_of_a_closure(capsys: pytest.CaptureFixture[str]) -> None:
    sd.debug()
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(np.float32(2.0), name="v")

        @sd.function
        def step() -> Any:
            v.assign_sub(np.float32(1.0))
            return sd.check_numerics(1.0 / v.value, "one over v")

        coordinator = sd.ClusterCoordinator(strategy)
        coordinator.schedule_steps(step, (), {}, 5)
        with pytest.raises(sd.errors.InvalidArgumentError, match="one over v"):
            coordinator.join()
    assert "in its step 2" in capsys.readouterr().err


def test_main_that_fails_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    sd.debug()
    with sd.Cluster({"worker": 1}) as cluster, pytest.raises(ValueError, match="on purpose"):
        cluster.launch(fail_on_purpose).join()
    assert "its main failed on worker:0" in capsys.readouterr().err


def test_nothing_is_said_while_debugging_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        coordinator = coordinator_of(cluster)
        coordinator.schedule(fail_on_purpose)
        with pytest.raises(ValueError, match="on purpose"):
            coordinator.join()
    assert capsys.readouterr().err == ""


def test_a_paused_program_that_debugs_leaves_its_caller_alone() -> None:
    def program(_: sd.Cluster) -> list[bool]:
        found = [debugging.is_on()]
        with sd.debug():
            sd.sleep(1.0)
            found.append(debugging.is_on())
        return [*found, debugging.is_on()]

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    session.advance(until=0.5)
    assert not debugging.is_on() and sd.Cluster({"worker": 1, "ps": 1}).numerics == "deferred"
    with sd.debug():
        session.advance()
        assert debugging.is_on()
        fork = session.fork(0.0)
        fork.advance()
    assert (session.result, fork.result) == ([False, True, False], [True, True, True])
    assert not debugging.is_on()


def test_a_word_is_no_position_of_the_switch() -> None:
    word: Any = "off"
    with pytest.raises(TypeError, match="on is 'off'; expected True or False"):
        sd.debug(word)
    assert not debugging.is_on()
