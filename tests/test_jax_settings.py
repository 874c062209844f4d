"""A ``with`` of JAX's configuration holds in what is begun in it, wherever and whenever that runs, and in nothing else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.jax_settings import has_another_width, open_settings, opened, trace_settings

Seen = tuple[object, object]


def seen() -> Seen:
    """A setting that traced code depends on, and one that it does not depend on."""
    config: Any = jax.config
    return config.jax_default_matmul_precision, config.jax_debug_nans


OUTSIDE, INSIDE = (None, False), ("float32", True)


def test_settings_that_are_opened_again_are_those_that_were_found() -> None:
    with jax.default_matmul_precision("float32"), jax.debug_nans(True):
        found = open_settings()
    with opened(found):
        assert seen() == INSIDE
        with pytest.raises(FloatingPointError):
            jax.numpy.zeros(2) / 0.0
    assert seen() == OUTSIDE
    assert open_settings() == []
    assert np.isnan(jax.numpy.zeros(2) / 0.0).all()


def test_settings_that_were_open_already_stay_open() -> None:
    with jax.default_matmul_precision("float32"):
        found = open_settings()
    with jax.default_matmul_precision("bfloat16"):
        with opened(found):
            assert seen()[0] == "float32"
        assert seen()[0] == "bfloat16"


def test_equal_settings_are_equal_and_know_what_differs_for_the_thread() -> None:
    outside = trace_settings()
    assert trace_settings() is outside
    with jax.default_matmul_precision("float32"), jax.debug_nans(True):
        inside = trace_settings()
        assert [state.name for state, _ in inside.opened] == ["jax_default_matmul_precision"]
    with jax.debug_nans(True):
        assert trace_settings() == outside
    with jax.default_matmul_precision("float32"):
        assert trace_settings() == inside != outside


def test_width_of_numbers_is_another_one_only_where_it_differs_for_the_thread() -> None:
    with jax.default_matmul_precision("float32"), jax.enable_x64(jax.config.read("jax_enable_x64")):
        assert not has_another_width(open_settings())
    with jax.enable_x64():
        assert has_another_width(open_settings())


@pytest.mark.parametrize("kind", [sd.OneDeviceStrategy, sd.MirroredStrategy, sd.MultiWorkerMirroredStrategy])
def test_step_is_traced_again_in_other_settings(kind: Any) -> None:
    strategy, traced = kind(), list[object]()

    @sd.function
    def step() -> float:
        traced.append(seen()[0])
        return 1.0

    for _ in range(2):
        strategy.run(step)
        with jax.default_matmul_precision("float32"):
            strategy.run(step)
    assert [*dict.fromkeys(traced)] == [None, "float32"]
    assert len(traced) == 2 * traced.count(None)


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_closure_runs_in_the_settings_in_which_it_was_scheduled(engine: Any) -> None:
    with sd.Cluster({"worker": 1, "ps": 1}, engine=engine) as cluster:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        traced = list[object]()

        @sd.function
        def step() -> float:
            traced.append(seen()[0])
            return 1.0

        def steps() -> tuple[Seen, object]:
            step()
            with jax.default_matmul_precision("bfloat16"):
                step()
            return seen(), traced[-1]

        for _ in range(3):  # the third time the worker knows the step
            coordinator.schedule(step)
            with jax.default_matmul_precision("float32"):
                coordinator.schedule(step)
        coordinator.join()
        assert traced == [None, "float32"]
        with jax.default_matmul_precision("float32"), jax.debug_nans(True):
            results = [coordinator.schedule(seen), coordinator.schedule(steps)]
        assert [*coordinator.fetch(results), coordinator.schedule(seen).fetch()] == [INSIDE, (INSIDE, "bfloat16"), OUTSIDE]
        assert seen() == OUTSIDE


@pytest.mark.parametrize("engine", [{}, {"engine": "in_process"}, {"engine": "in_process", "isolated": True}], ids=str)
def test_settings_hold_where_the_numbers_of_a_closure_are_computed(engine: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """And a value that has been NaN before can be read there: reading computes nothing."""
    if "isolated" in engine:
        pytest.importorskip("flatbuffers")
    with sd.Cluster({"worker": 1, "ps": 1}, **engine) as cluster:
        coordinator = sd.ClusterCoordinator(strategy := sd.ParameterServerStrategy(cluster))
        with strategy.scope():
            variable = sd.Variable(np.float32(np.nan))
        step = sd.function(jnp.log)
        with jax.debug_nans(True):
            assert np.isnan(variable.numpy())
            result = coordinator.schedule(step, args=(np.float32(-1.0),))
            with pytest.raises(FloatingPointError):
                coordinator.join()
                result.fetch()
        assert np.isnan(coordinator.schedule(step, args=(np.float32(-1.0),)).fetch())
    assert "Invalid nan value" in capsys.readouterr().out  # of JAX


def test_step_with_numbers_of_another_width_than_the_servers_is_refused() -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        step = sd.function(lambda: 1.0)
        with jax.enable_x64(), pytest.raises(sd.errors.InvalidArgumentError, match=r"Set the width of numbers for the whole program"):
            coordinator.schedule(step)
        coordinator.join()


def test_launched_mains_begin_and_begin_again_in_the_settings_of_their_launch() -> None:
    begun: list[Seen] = []

    def main() -> None:
        begun.append(seen())
        sd.sleep(5.0)

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.crash("worker:1", at=1.0, restart_after=1.0)
        with jax.default_matmul_precision("float32"), jax.debug_nans(True):
            run = cluster.launch(main, restart="always")
        run.join()
    assert begun == [INSIDE] * 3
    assert seen() == OUTSIDE


def test_program_of_a_session_has_the_settings_of_where_it_was_made_also_when_it_is_forked() -> None:
    def program(cluster: sd.Cluster) -> Seen:
        sd.sleep(2.0, cluster)
        return seen()

    with jax.default_matmul_precision("float32"), jax.debug_nans(True):
        session = sd.Session(program, sd.Cluster({"worker": 1}))
    session.advance(until=1.0)
    with jax.default_matmul_precision("bfloat16"):
        fork = session.fork(0.5)
        fork.advance()
        session.advance()
    assert session.result == fork.result == INSIDE
