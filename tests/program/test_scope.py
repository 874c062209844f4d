"""Scopes, each written here: they place variables and run steps without any strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError
from simdist.process_state import TaskContext, active_context
from simdist.program import scope as scopes
from simdist.program.function import StepFunction
from simdist.program.scope import Scope, chosen_scope, current_scope, is_default, libraries, opened, running, start_own_default
from simdist.program.tracing import Tracer
from simdist.simulation.kernel import Clock


class Recording:
    """A scope that keeps the values of its variables in a dictionary, and runs steps as they stand."""

    num_replicas_in_sync = 1

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.ran: list[str] = []

    def create(self, variable: Any, value: Any) -> None:
        self.values[variable.name] = value
        variable.placement = SimpleNamespace(store=self)

    def run_step(self, fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self.ran.append(fn.name)
        return fn.fn(*args, **kwargs)

    seeding_task = None

    def next_seed(self) -> int:
        return len(self.ran)

    def observe(self, variable: Any) -> Any:
        return self.values[variable.name]

    def update(self, rule: str, variables: Sequence[Any], operands: Sequence[Any]) -> None:
        assert rule == "add"
        self.values[variables[0].name] += operands[0]


class Tracked:
    """A library that notes what happens to it."""

    def __init__(self, fails: bool = False) -> None:
        self.events: list[object] = []
        self.fails = fails

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[None]:
        if self.fails:
            raise ValueError("the library refuses")
        with self._noted("open", scope):
            yield

    @contextmanager
    def guard(self) -> Iterator[None]:
        with self._noted("guard", None):
            yield

    def adopt(self, holder: Any, variable: Any) -> bool:
        return False

    @contextmanager
    def _noted(self, what: str, scope: object) -> Iterator[None]:
        self.events.append((what, scope))
        try:
            yield
        finally:
            self.events.append((f"end of {what}", scope))


@contextmanager
def inside(context: TaskContext) -> Iterator[None]:
    outer = active_context()
    context.replace(outer)
    try:
        yield
    finally:
        outer.replace(context)


def using(monkeypatch: pytest.MonkeyPatch, *used: Tracked) -> None:
    monkeypatch.setattr(scopes, "libraries", list(used))


def test_scope_places_the_variables_and_runs_the_steps_of_the_code_inside() -> None:
    mine = Recording()

    @sd.function
    def add(amount: float) -> jax.Array:
        v.assign_add(amount)
        return v.value

    with opened(mine):
        v = sd.Variable([1.0, 2.0], name="v")
        result = add(0.5)
    np.testing.assert_array_equal(result, [1.5, 2.5])
    np.testing.assert_array_equal(v.numpy(), [1.5, 2.5])
    assert mine.ran == ["add"]
    assert list(mine.values) == ["v"]


def test_scope_of_each_task_is_its_own_while_tasks_take_turns() -> None:
    clock, seen = Clock(), list[tuple[float, bool, bool]]()
    first, second = Recording(), Recording()

    def task(own: Recording, pause_s: float) -> None:
        with opened(own):
            for _ in range(3):
                clock.sleep(pause_s)
                seen.append((clock.now, current_scope() is own, chosen_scope() is own))

    fibers = [clock.spawn("a", lambda: task(first, 1.0)), clock.spawn("b", lambda: task(second, 0.4))]
    with opened(Recording()):
        for fiber in fibers:
            clock.join(fiber)
    assert len(seen) == 6
    assert [time for time, _, _ in seen] == sorted(time for time, _, _ in seen)
    assert all(current and chosen for _, current, chosen in seen)


def test_another_scope_is_refused_while_one_is_open_and_the_same_is_not() -> None:
    first, second = Recording(), Recording()
    with opened(first), opened(first):
        with pytest.raises(FailedPreconditionError, match="The scope of Recording is open"), opened(second):
            pass
        assert current_scope() is first
    assert chosen_scope() is None


def test_scope_that_runs_a_replica_comes_before_the_one_that_is_open() -> None:
    open_one, runs = Recording(), Recording()
    with opened(open_one):
        with running(runs):
            assert current_scope() is runs
            assert chosen_scope() is runs
        assert current_scope() is open_one


def test_default_scope_is_made_once_for_each_task_that_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "_make_default", [Recording])
    tasks = [TaskContext(), TaskContext()]
    for task in tasks:
        start_own_default(task)
    found: list[Scope] = []
    for task in tasks:
        with inside(task):
            found += [current_scope(), current_scope()]
            assert is_default(found[-1])
            assert chosen_scope() is None
            with running(found[-1]):
                assert chosen_scope() is None
    assert found[0] is found[1]
    assert found[2] is found[3]
    assert found[0] is not found[2]
    assert not is_default(found[0])


def test_library_sees_scopes_open_and_close_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    library, mine = Tracked(), Recording()
    using(monkeypatch, library)
    with pytest.raises(ValueError, match="mine"), opened(mine):
        raise ValueError("mine")
    assert library.events == [("open", mine), ("end of open", mine)]
    assert chosen_scope() is None


def test_scope_is_closed_again_where_a_library_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    willing = Tracked()
    using(monkeypatch, willing, Tracked(fails=True))
    with pytest.raises(ValueError, match="the library refuses"), opened(Recording()):
        pass
    assert len(willing.events) == 2
    assert chosen_scope() is None


@pytest.mark.parametrize("fails", [False, True])
def test_guards_are_closed_after_a_trace_also_where_it_ends_with_an_error(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    library, events = Tracked(), list[object]()
    using(monkeypatch, library)

    def step() -> list[jax.Array]:
        events.extend(library.events)
        if fails:
            raise ValueError("the step fails")
        return [jnp.zeros(2)]

    with ExitStack() as stack:
        if fails:
            stack.enter_context(pytest.raises(ValueError, match="the step fails"))
        Tracer().trace(step)
    assert events == [("guard", None)]
    assert library.events == [("guard", None), ("end of guard", None)]


def test_keras_is_one_library_however_often_it_is_installed() -> None:
    from simdist.training import adoption

    adoption.install()
    adoption.install()
    assert [type(library).__name__ for library in libraries].count("KerasLibrary") == 1
