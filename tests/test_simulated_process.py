"""Variables, settings of Keras and the switch of debugging: what a main or a session changes is its own."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

import simdist as sd
from simdist import keras
from simdist.simulated_process import KERAS_CONFIG, SimulatedProcess

Settings = tuple[str, str, float]


def settings() -> Settings:
    return keras.config.floatx(), keras.config.image_data_format(), keras.config.epsilon()


def change_settings() -> None:
    keras.config.set_floatx("float64")
    keras.config.set_image_data_format("channels_first")
    keras.config.set_epsilon(1e-3)


def test_settings_of_keras_are_those_of_one_main() -> None:
    before = settings()

    def main() -> list[Settings]:
        found = [settings()]
        if sd.TFConfigClusterResolver().task_id == 0:
            change_settings()
        for _ in range(2):
            sd.sleep(1.0)
            found.append(settings())
        return found

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    changed = ("float64", "channels_first", 1e-3)
    assert run.results == {"worker:0": [before, changed, changed], "worker:1": [before] * 3}
    assert settings() == before


def test_a_session_keeps_settings_and_variables_to_itself_and_its_closures_see_them() -> None:
    before = settings()

    def program(cluster: sd.Cluster) -> list[Any]:
        found: list[Any] = [settings(), os.environ.get("SIMDIST_TEST_SESSION")]
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        change_settings()
        os.environ["SIMDIST_TEST_SESSION"] = "mine"
        sd.sleep(1.0)
        closure = coordinator.schedule(lambda: (settings(), os.environ["SIMDIST_TEST_SESSION"]))
        coordinator.join()
        return [*found, closure.fetch()]

    session = sd.Session(program, sd.Cluster({"worker": 1, "ps": 1}))
    session.advance(until=0.5)
    assert (settings(), os.environ.get("SIMDIST_TEST_SESSION")) == (before, None)
    session.advance()
    fork = session.fork(0.0)
    fork.advance()
    assert session.result == fork.result == [before, None, (("float64", "channels_first", 1e-3), "mine")]
    assert (settings(), os.environ.get("SIMDIST_TEST_SESSION")) == (before, None)


def test_keras_that_a_process_imports_first_has_its_usual_settings_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    before, process = settings(), SimulatedProcess({}, 0)
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, KERAS_CONFIG)  # as if nothing had imported Keras yet
        process.enter()
    change_settings()
    process.leave()
    assert settings() == before
    process.enter()
    assert settings() == ("float64", "channels_first", 1e-3)
    process.leave()
    assert settings() == before


def test_a_variable_that_a_process_deletes_stays_away_for_it_and_there_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMDIST_TEST_OUTER", "one")
    process = SimulatedProcess({"SIMDIST_TEST_GIVEN": "two"}, 0)
    process.enter()
    del os.environ["SIMDIST_TEST_OUTER"], os.environ["SIMDIST_TEST_GIVEN"]
    for _ in range(2):
        process.leave()
        assert (os.environ["SIMDIST_TEST_OUTER"], os.environ.get("SIMDIST_TEST_GIVEN")) == ("one", None)
        process.enter()
        assert not {"SIMDIST_TEST_OUTER", "SIMDIST_TEST_GIVEN"} & set(os.environ)
    os.environ["SIMDIST_TEST_OUTER"] = "three"
    process.leave()
    assert os.environ["SIMDIST_TEST_OUTER"] == "one"
    process.enter()
    assert os.environ["SIMDIST_TEST_OUTER"] == "three"
    process.leave()
