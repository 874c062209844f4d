"""What faults of messages lay over which pairs, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from faults.fake_effects import FakeEffects
from simdist.errors import InvalidArgumentError
from simdist.faults.messages import MESSAGES
from simdist.faults.schedule import Faults

ALL = frozenset(MESSAGES)


def test_each_kind_is_laid_over_one_direction_of_each_pair_until_its_end() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    faults.drop("worker:0", ["ps:0", "chief"], kind="request", at=1.0, until=2.0, probability=0.5)
    faults.delay(["worker:0", "worker:1"], "worker:1", 0.5, 0.25, at=1.0, until=2.0)
    faults.duplicate("ps:0", "worker:0", kind="copy", at=1.0, until=2.0)
    faults.slow_link("worker:0", "ps:0", 10.0, latency_factor=3, at=1.0, until=2.0)
    requests = frozenset({"read", "update", "closure", "round"})
    assert effects.move_to(1.0).laid == [
        ("drop", "worker:0", "ps:0", requests, 0.5),
        ("drop", "worker:0", "chief:0", requests, 0.5),
        ("delay", "worker:0", "worker:1", ALL, 1.0, 0.5, 0.25),
        ("duplicate", "ps:0", "worker:0", frozenset({"copy"}), 1.0),
        ("slow_link", "worker:0", "ps:0", 10.0, 3.0),
    ]
    assert effects.move_to(2.0).laid == []


def test_each_lane_is_told_with_whom_and_in_which_direction() -> None:
    effects = FakeEffects()
    Faults(effects).drop("worker:0", ["ps:0", "worker:1"], kind="update", at=1.0, until=2.0, probability=0.5)
    effects.move_to(2.0)
    figures = {"messages": "update", "probability": 0.5}
    lanes = {
        "worker:0": {"peer": "ps:0, worker:1", "way": "sent", **figures},
        "ps:0": {"peer": "worker:0", "way": "received", **figures},
        "worker:1": {"peer": "worker:0", "way": "received", **figures},
    }
    assert effects.notes == [
        *((1.0, "drop", task, {**facts, "until": 2.0}) for task, facts in lanes.items()),
        *((2.0, "heal", task, {**facts, "kind": "drop"}) for task, facts in lanes.items()),
    ]


@pytest.mark.parametrize(("kind", "silent", "disturbed"), [("drop", 1, 1), ("delay", 1, 1), ("duplicate", 0, 1), ("slow_link", 0, 1)])
def test_who_waits_is_warned_of_what_may_be_lost_and_of_what_is_late_when_it_begins(kind: str, silent: int, disturbed: int) -> None:
    effects = FakeEffects()
    options = {"seconds": 1.0} if kind == "delay" else {}
    getattr(Faults(effects), kind)("worker:0", "ps:0", at=1.0, **options)
    assert (effects.expects_silence, effects.is_disturbed) == (silent, False)
    effects.move_to(1.0)
    assert (effects.expects_silence, effects.is_disturbed) == (silent, disturbed)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "drop",
            {"kind": "updates"},
            r"kind='updates' is not known; use one of 'read', 'update', .*'collective'.* Did you mean 'update'\?",
        ),
        ("drop", {"kind": 3}, "kind=3 is not known"),
        ("drop", {"probability": 0.0}, "probability=0.0 must be more than 0, and at most 1: that it befalls a message"),
        ("duplicate", {"probability": 1.5}, "probability=1.5 must be"),
        ("delay", {"seconds": -1.0}, "seconds=-1.0 must be 0 or more, and at most 3600 s: by how much"),
        ("delay", {"seconds": 1.0, "spread": float("nan")}, "spread=nan must be"),
        ("slow_link", {"bandwidth_factor": 0.5}, "bandwidth_factor=0.5 must be 1 or more"),
        ("slow_link", {"latency_factor": 1e9}, "latency_factor=1000000000.0 must be 1 or more, and at most 10000"),
        ("drop", {"target": "worker:0"}, "worker:0 sends itself no messages"),
        ("drop", {"target": []}, r"target=\[\] must be the name of a task, or a list"),
        ("drop", {"target": "ps:9"}, "no task ps:9"),
        ("drop", {"until": 0.5}, "until=0.5 s is not after the beginning"),
    ],
)
def test_figures_that_make_no_sense_are_refused_by_name_and_not_planned(kind: str, options: dict[str, Any], message: str) -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    with pytest.raises(InvalidArgumentError, match=message):
        getattr(faults, kind)(**{"source": "worker:0", "target": "ps:0", "at": 1.0, **options})
    assert (faults.planned, effects.move_to(2.0).laid) == ([], [])


def test_a_lost_host_is_handed_to_the_engine() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    fault = faults.lose_host("worker:0", at=1.0, restart_after=0.5)
    assert effects.expects_silence
    effects.move_to(3.0)
    assert effects.lost_hosts == [(1.0, "worker:0", 0.5, "lose_host('worker:0', at=1.0)")]
    assert (effects.crashes, effects.notes, fault.fired_s) == ([], [], 1.0)
