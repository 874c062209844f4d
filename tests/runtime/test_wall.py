"""Strategies, coordinator and trainer know of an engine what its protocol says, and nothing else: golden runs through a proxy.

The proxy has the attributes of `simdist.runtime.base.Engine` only, and so has what it hands out; the runs must not be able to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import simdist as sd
from sampling import sampled
from simdist.runtime.base import Engine, Promise, TaskRuntime
from simdist.runtime.replicas import Member, Process, ReplicaGroup
from simdist.runtime.work import Handle, WorkerStep
from tests.golden.measuring import measure
from tests.golden.runs import RUNS
from tests.golden.stored import differences, read
from tests.runtime.proxy import Proxy, attributes, bare, behind
from tests.runtime.wall_sample import THROUGH_A_PROXY

STORED = read()


@pytest.fixture
def walled(monkeypatch: Any) -> None:
    """Every new cluster has its engine behind a proxy, and nobody may ask for the world."""
    make: Callable[..., None] = sd.Cluster.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self.engine = behind(self.engine, Engine)

    def world(self: Any) -> Any:
        if isinstance(self.engine, Proxy):
            raise AssertionError("somebody above the wall asked for cluster.world")
        return self.engine.world

    monkeypatch.setattr(sd.Cluster, "__init__", init)
    monkeypatch.setattr(sd.Cluster, "world", property(world))


@pytest.mark.parametrize("name", sampled(RUNS, THROUGH_A_PROXY))
def test_a_run_that_sees_only_the_protocol_is_as_it_was(name: str, walled: None) -> None:
    found = differences(STORED[name], measure(name))
    assert not found, f"{name!r} is another one through a proxy of the engine: {'; '.join(found)}"


# -- the proxy itself ---------------------------------------------------------------------------------------------------


def test_attributes_are_read_off_the_protocol() -> None:
    assert {"seed", "now", "versions", "start_workers", "close"} <= attributes(Engine).keys()
    assert set(attributes(Process)) == {"alive", "incarnation"}
    assert set(attributes(Handle)) == {"error", "value", "wait", "then", "accept"}
    assert "step" in attributes(TaskRuntime)


def test_reaching_through_names_what_was_reached_for(walled: None) -> None:
    engine = sd.Cluster({"worker": 1}).engine
    with pytest.raises(AttributeError, match="Engine has no 'world'"):
        engine.world  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="Process has no 'began_s'"):
        engine.process("worker:0").began_s  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="Promise has no 'fiber'"):
        engine.promise().fiber  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="now cannot be set"):
        engine.now = 3.0  # type: ignore[misc]


def test_what_an_engine_is_given_is_behind_a_protocol_too(walled: None) -> None:
    found: dict[str, Any] = {}

    class Inside:
        """Looks at what it is given."""

        def call(self, task: str, step: Any, number: int) -> Any:
            found["step"] = step
            return SimpleNamespace(value=step.bind(SimpleNamespace(name=task, secret=1)), error=None)

        def call_function(self, task: str, function: Any, number: int) -> Any:
            return function(SimpleNamespace(name=task, secret=1), lambda step: found.setdefault("taken", step))

    pool = behind(SimpleNamespace(start_workers=lambda tasks, strategy: Inside()), Engine).start_workers(["worker:0"], None)
    bound = SimpleNamespace(repeat=1, secret=2, bind=lambda worker: found.setdefault("worker", worker))
    pool.call("worker:0", bound, 0)
    assert isinstance(found["step"], Proxy) and found["step"].repeat == 1
    with pytest.raises(AttributeError, match="WorkerStep has no 'secret'"):
        found["step"].secret  # noqa: B018
    with pytest.raises(AttributeError, match="Worker has no 'secret'"):
        found["worker"].secret  # noqa: B018
    with pytest.raises(AttributeError, match="Worker has no 'secret'"):
        pool.call_function("worker:0", lambda worker, take: worker.secret, 1)
    pool.call_function("worker:0", lambda worker, take: take(bound), 2)
    assert isinstance(found["taken"], Proxy) and found["taken"].repeat == 1


def test_what_comes_back_to_its_own_side_is_itself() -> None:
    process, got = SimpleNamespace(alive=True, incarnation=0), list[Any]()
    engine = behind(SimpleNamespace(process=lambda task: process, notice=lambda member, reason: got.append(member.process)), Engine)
    seen = engine.process("worker:0")
    assert isinstance(seen, Proxy) and bare(seen) is process and seen is engine.process("worker:0")
    engine.notice(Member(0, "worker:0", "worker:0", seen), "no answer")
    assert got == [process] and not isinstance(got[0], Proxy)


def test_protocols_that_cross_the_wall_have_proxies() -> None:
    results = {
        name: attributes(Engine)[name].__annotations__.get("return") for name in ("process", "start_workers", "promise", "replica_group")
    }
    assert results == {"process": "Process", "start_workers": "WorkerPool", "promise": "Promise", "replica_group": "ReplicaGroup"}
    assert all(attributes(protocol) for protocol in (Promise, ReplicaGroup, WorkerStep))
