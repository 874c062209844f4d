"""Commands and goals are plain data of their own: nothing that their maker does later changes them, and they have a text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import simdist as sd
from session_programs import session_of
from simdist.errors import InvalidArgumentError
from simdist.faults.process import Crash
from simdist.faults.triggers import Trigger
from simdist.session import Command, Frame, Moment, commands_from_json, commands_to_json, recovery

SLOW = {"kind": "slow", "task": "worker:1", "factor": 2.0}


def test_a_dict_that_makes_several_commands_gives_each_its_own_fault() -> None:
    fault: dict[str, Any] = dict(SLOW)
    session, forks = session_of("coordinator"), list[sd.Session]()
    for factor in (2.0, 4.0):
        fault["factor"] = factor
        forks.append(session.fork(0.001, plus=[Command(0.0002, fault)]))
    digests = [fork.digest() for fork in forks]
    assert [fork.commands[0].fault["factor"] for fork in forks] == [2.0, 4.0]
    for fork in forks:
        fork.rewind(0.001)
    assert [fork.digest() for fork in forks] == digests and len(set(digests)) == 2


def test_a_list_of_tasks_belongs_to_the_command() -> None:
    side = ["worker:0"]
    command = Command(0.0, {"kind": "partition", "a": side, "b": ["ps:0"]})
    side.append("worker:1")
    assert command.fault["a"] == ["worker:0"]


@pytest.mark.parametrize(
    "command",
    [
        Command(np.float32(0.5), {**SLOW, "factor": np.float32(2.0)}, np.int64(3)),
        Command(np.int32(1), {"kind": "crash", "task": "worker:1", "keep_disk": np.False_, "restart_after": np.float64(0.5)}),
        Command(1, {"kind": "partition", "a": ("worker:0",), "b": ("ps:0",)}),
    ],
)
def test_numbers_of_numpy_are_pythons_and_have_a_text(command: Command) -> None:
    assert type(command.at_s) is float
    assert commands_from_json(commands_to_json([command])) == [command]


def test_a_fault_is_a_command_as_its_dict_is() -> None:
    crash = Crash("worker:1", restart_after=0.5, trigger=Trigger(at=2.0))
    assert Command(1.0, crash) == Command(1.0, {"kind": "crash", "task": "worker:1", "restart_after": 0.5, "at": 2.0})


@pytest.mark.parametrize("fault", ["crash", None, [1], 0.5])
def test_what_is_no_fault_is_refused_with_what_was_given(fault: Any) -> None:
    with pytest.raises(TypeError, match=r"fault is .*; expected a fault, or a dict such as"):
        Command(0.0, fault)


def test_what_is_no_goal_leaves_the_run_where_it_is() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    before: Any = 0.001
    with pytest.raises(TypeError, match=r"goal is 0\.001; expected a goal.* advance\(until=\.\.\.\)"):
        session.advance_to(before)
    session.advance()
    assert session.state == "finished"


@pytest.mark.parametrize("goal", [Moment(np.float32(0.05), 0), Frame(np.float32(0.05), 60.0)])
def test_the_clock_is_never_of_32_bits(goal: Moment | Frame) -> None:
    session = sd.Session(lambda cluster: sd.sleep(1.0, cluster), sd.Cluster({"worker": 1}))
    session.advance_to(goal)
    assert (type(session.now), session.now) == (float, float(np.float32(0.05)))


def test_a_frame_until_no_second_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="until_s=nan must be a finite number"):
        Frame(math.nan, 1.0)


@pytest.mark.parametrize("use", [sd.share, lambda given: recovery(given, Command(0.0, SLOW))])
def test_a_cluster_in_the_place_of_a_session_is_named_by_the_error(use: Any) -> None:
    with pytest.raises(TypeError, match=r"session is Cluster\(.*; expected an sd\.Session"):
        use(sd.Cluster({"worker": 2}))
