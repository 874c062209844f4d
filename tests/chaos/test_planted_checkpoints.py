"""Restores that leave something out: put into the library, they show in a loop that goes back to what it has saved."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.chaos import Disturbance, Scenario, examine, run
from simdist.checkpoint.variable_parts import VariablePart
from simdist.input.distributed_iterator import DistributedIterator

OPTIONS = {"under": "multi-worker", "acts": "tstrt", "batch": 8, "momentum": True, "async": False, "kept": 2}
SYNCHRONOUS = Scenario("checkpoints", OPTIONS, workers=2, numerics="deferred")
SERVED = Scenario("checkpoints", {**OPTIONS, "under": "servers"}, workers=2, servers=2, numerics="deferred")
SERVER_DIES = Scenario(
    "checkpoints",
    {**OPTIONS, "under": "servers", "acts": "tsttt"},
    workers=2,
    servers=2,
    numerics="deferred",
    disturbances=(Disturbance("crash", "ps:0", at_s=0.0031, figures={"restart_after": 0.5}),),
)


def leaves_out(patch: pytest.MonkeyPatch, word: str) -> None:
    """A restore passes over variables with this word in their path."""
    restore = VariablePart.restore

    def most(part: VariablePart, path: str, *arguments: Any) -> None:
        if word not in path:
            restore(part, path, *arguments)

    patch.setattr(VariablePart, "restore", most)


def weights_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    leaves_out(patch, "weights")


def slots_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    leaves_out(patch, "slots")


def positions_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DistributedIterator, "load_state_dict", lambda iterator, state: None)


@pytest.mark.parametrize(
    ("plant", "scenario", "invariant"),
    [
        (weights_are_not_restored, SYNCHRONOUS, "restored-as-saved"),
        (weights_are_not_restored, SERVED, "restored-as-saved"),
        (weights_are_not_restored, SERVER_DIES, "restored-as-saved"),
        (slots_are_not_restored, SYNCHRONOUS, "equals-replay"),
        (positions_are_not_restored, SYNCHRONOUS, "equals-replay"),
    ],
)
def test_a_restore_that_leaves_something_out_is_found(
    plant: Any, scenario: Scenario, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examine(scenario, again=False, forgotten=False) == []
    plant(monkeypatch)
    assert invariant in {finding.invariant for finding in examine(scenario, again=False, forgotten=False)}


def test_the_loop_outlives_a_server_that_comes_back_empty() -> None:
    done = run(SERVER_DIES)
    done.close()
    assert done.error is None and [d.kind for d in done.fired] == ["crash"]
    (saved, restored) = done.stage.restores[0]
    assert saved.tobytes() == restored.tobytes() and len(done.stage.restores) == 1
