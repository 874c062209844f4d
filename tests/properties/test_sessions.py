"""Whatever is done to a session, in whatever order: it is the run of its commands, and its forks are those of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import session_programs as programs
import simdist as sd
from sampling import examples
from simdist.errors import SimdistError
from simdist.session.branch import Family

KNOWN = programs.LOOPS | {f"Keras: {name}": known for name, known in programs.PROGRAMS.items() if name != "coordinator"}
EXAMPLES = {"coordinator": 8} | {name: 3 for name in programs.LOOPS if name != "coordinator"}  # in CI; for more, see the end
# A fault at once, or a fork without one, may end the program before later commands.
LEFT_OVER = "ignore:The program is (failed|finished) at"
SECONDS = 0.004  # no program takes longer without faults

moments = st.floats(0.0, 1.0).map(lambda part: part * SECONDS)
durations = st.floats(0.01, 0.5).map(lambda part: part * SECONDS)


def faults(spec: Mapping[str, int]) -> st.SearchStrategy[dict[str, Any]]:
    """Faults of all kinds, on the tasks of a cluster."""
    tasks = st.sampled_from([f"{job}:{index}" for job, count in spec.items() for index in range(count)])
    others = st.sampled_from(["chief:0", *(f"{job}:{index}" for job, count in spec.items() for index in range(count))])
    until = durations.map(lambda duration_s: SECONDS + duration_s)
    sides = {"source": tasks, "target": others, "until": until}
    return st.one_of(
        st.fixed_dictionaries({"kind": st.just("crash"), "task": tasks, "restart_after": durations}),
        st.fixed_dictionaries({"kind": st.just("lose_host"), "task": tasks, "restart_after": durations}),
        st.fixed_dictionaries({"kind": st.just("slow"), "task": tasks, "factor": st.floats(1.5, 8.0), "until": until}),
        st.fixed_dictionaries({"kind": st.just("pause"), "task": tasks, "until": until}),
        st.fixed_dictionaries(
            {"kind": st.just("partition"), "a": tasks.map(lambda task: [task]), "b": st.just(["chief:0"]), "until": until}
        ),
        st.fixed_dictionaries({"kind": st.just("drop"), **sides, "probability": st.floats(0.1, 1.0)}),
        st.fixed_dictionaries({"kind": st.just("delay"), **sides, "seconds": durations}),
        st.fixed_dictionaries({"kind": st.just("duplicate"), **sides}),
        st.fixed_dictionaries({"kind": st.just("slow_link"), **sides, "bandwidth_factor": st.floats(2.0, 50.0)}),
    )


def actions(spec: Mapping[str, int]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    return st.lists(
        st.one_of(
            st.tuples(st.just("by"), durations),
            st.tuples(st.just("events"), st.integers(0, 200)),
            st.tuples(st.just("steps"), st.integers(0, 4)),
            st.tuples(st.just("inject"), faults(spec)),
            st.tuples(st.just("rewind"), st.floats(0.0, 1.0)),
            st.tuples(st.just("fork"), st.tuples(st.floats(0.0, 1.0), st.integers(0, 3))),
            st.tuples(st.just("other branch"), st.integers(0, 3)),
        ),
        max_size=8,
    )


def act(branches: list[sd.Session], action: tuple[str, Any]) -> None:
    """Do one thing to the last of some branches; the one to go on with is the last then."""
    session, (what, value) = branches[-1], action
    if what == "rewind":
        session.rewind(session.now * value)
    elif what == "fork":
        part, number = value
        branches.append(session.fork(session.now * part, without=session.commands[number : number + 1]))
    elif what == "other branch":
        branches.append(branches.pop(value % len(branches)))
    elif what != "inject":
        session.advance(**{what: value})
    elif session.state == "paused":
        session.inject(value)


def outcome(session: sd.Session) -> tuple[str, object, str, float]:
    """What a session comes to."""
    try:
        session.advance()
    except SimdistError as error:
        assert "nothing that is still to happen" not in str(error), "a fault was not noticed, and the program waits for ever"
        return (type(error).__name__, str(error), session.digest(), session.now)
    return (session.state, session.result, session.digest(), session.now)


def check(name: str, todo: list[tuple[str, Any]]) -> None:
    program, cluster = KNOWN[name][0], programs.cluster_of(name.removeprefix("Keras: "))
    branches = [sd.Session(program, cluster)]
    for action in todo:
        try:
            act(branches, action)
        except SimdistError as error:
            assert branches[-1].state == "failed" or action[0] == "inject"
            assert "no figure" not in str(error) and "lacks the figure" not in str(error), "the test makes up faults that there are not"
    session = branches[-1]
    batch = sd.Session(program, cluster, session.commands)
    assert outcome(session) == outcome(batch)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.filterwarnings(LEFT_OVER)
def test_any_story_ends_as_the_run_of_its_commands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "most_runs", 2)  # so that runs are put aside, and done again

    @examples(EXAMPLES.get(name, 2), suppress_health_check=list(HealthCheck))
    @given(actions(KNOWN[name][1]))
    def story(todo: list[tuple[str, Any]]) -> None:
        check(name, todo)

    story()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.filterwarnings(LEFT_OVER)
def test_any_story_ends_as_the_run_of_its_commands_in_many_stories(name: str) -> None:
    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    @given(actions(KNOWN[name][1]))
    def story(todo: list[tuple[str, Any]]) -> None:
        check(name, todo)

    story()
