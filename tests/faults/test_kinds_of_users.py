"""A kind of a user's own that lays what a kind of ours lays does the same, though it says nothing of silence and disturbances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

import simdist as sd
from simdist.faults.base import KINDS, Fault
from simdist.faults.effects import Effects, Heal
from simdist.faults.messages import kinds_of
from simdist.faults.parameters import number
from simdist.faults.process import Slow
from simdist.faults.shapes import LastingFault, TaskFault
from simdist.faults.triggers import Trigger

A, B = "worker:1", "worker:2"
Lays = Callable[[Effects], Heal]
Plans = Callable[[sd.Cluster], Fault]

LAYS: dict[str, tuple[Lays, Plans]] = {
    "cut": (lambda effects: effects.cut(A, B), lambda cluster: cluster.faults.partition(A, B, one_way=True, at=0.0013, until=0.05)),
    "pause": (lambda effects: effects.pause(A), lambda cluster: cluster.faults.pause(A, at=0.0013, until=0.05)),
    "drop": (
        lambda effects: effects.drop(A, B, kinds_of(None), 1.0),
        lambda cluster: cluster.faults.drop(A, B, at=0.0013, until=0.05),
    ),
    "delay": (
        lambda effects: effects.delay(A, B, kinds_of(None), 1.0, 0.003, 0.0),
        lambda cluster: cluster.faults.delay(A, B, seconds=0.003, at=0.0013, until=0.05),
    ),
    "duplicate": (
        lambda effects: effects.duplicate(A, B, kinds_of(None), 1.0),
        lambda cluster: cluster.faults.duplicate(A, B, at=0.0013, until=0.05),
    ),
    "slow link": (
        lambda effects: effects.slow_link(A, B, 50.0, 3.0),
        lambda cluster: cluster.faults.slow_link(A, B, bandwidth_factor=50.0, latency_factor=3.0, at=0.0013, until=0.05),
    ),
}


@pytest.fixture
def users_kind(request: pytest.FixtureRequest) -> Iterator[type[TaskFault]]:
    lays, _ = LAYS[request.param]

    @dataclass(eq=False)
    class UsersOwn(TaskFault, LastingFault, kind="users_own"):
        def lay(self, effects: Effects) -> Heal:
            return lays(effects)

    yield UsersOwn
    del KINDS["users_own"]


def outcome(plan: Plans) -> tuple[str, float]:
    """How thirty steps of three workers end, and when."""
    cluster = sd.Cluster({"worker": 3}, seed=1)
    plan(cluster)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable(np.zeros(40_000, np.float32), aggregation=sd.VariableAggregation.MEAN)

    def replica_step() -> None:
        context = sd.get_replica_context()
        assert context is not None
        variable.assign_add(context.all_reduce("sum", variable.value * 0 + 1.0))

    @sd.function
    def step() -> None:
        strategy.run(replica_step)

    try:
        for _ in range(30):
            step()
    except sd.errors.TimedOutError as error:
        return str(error), cluster.now
    return str(variable.numpy()[0]), cluster.now


@pytest.mark.parametrize(("users_kind", "kind"), [(kind, kind) for kind in LAYS], indirect=["users_kind"])
def test_a_users_kind_disturbs_a_synchronous_step_as_ours_does(users_kind: type[TaskFault], kind: str) -> None:
    users = outcome(lambda cluster: cluster.faults.add(users_kind(A, until=0.05, trigger=Trigger(at=0.0013))))  # type: ignore[call-arg]
    ours = outcome(LAYS[kind][1])
    assert users[0] == ours[0] and users[1] == pytest.approx(ours[1], rel=1e-9)
    quiet_s = 0.024696
    assert users[1] > quiet_s * 1.5 or kind == "duplicate"


def test_a_users_kind_that_loses_a_machine_ends_a_step_that_waits_for_it() -> None:
    @dataclass(eq=False)
    class Gone(TaskFault, kind="gone"):
        def begin(self, effects: Effects) -> None:
            effects.lose_host(self.task, 0.2, "gone")

    try:
        with pytest.raises(sd.errors.UnavailableError, match="worker:1 is silent"):
            outcome(lambda cluster: cluster.faults.add(Gone(A, trigger=Trigger(at=0.0013))))
    finally:
        del KINDS["gone"]


@pytest.fixture
def forgets() -> Iterator[None]:
    known = dict(KINDS)
    yield
    KINDS.clear()
    KINDS.update(known)


@pytest.mark.usefixtures("forgets")
def test_a_kind_whose_lay_returns_nothing_says_so_when_it_begins() -> None:
    @dataclass(eq=False)
    class Careless(TaskFault, LastingFault, kind="careless"):
        def lay(self, effects: Effects) -> Heal:  # type: ignore[return]
            effects.slow(self.task, 2.0)

    cluster = sd.Cluster({"worker": 1})
    cluster.faults.add(Careless("worker:0", trigger=Trigger(at=1.0)))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Careless\.lay\(effects\) returned None; .* Write return effects\.slow"):
        sd.sleep(2.0, cluster)


@pytest.mark.usefixtures("forgets")
def test_a_kind_with_parameters_that_is_no_dataclass_is_refused() -> None:
    class NoDataclass(TaskFault, kind="no_dataclass"):
        factor: float = field(metadata=number("on its time"))

        def begin(self, effects: Effects) -> None: ...

    class TwoBases(TaskFault, LastingFault, kind="two_bases"):
        def lay(self, effects: Effects) -> Heal:
            return effects.slow(self.task, 2.0)

    for kind in (NoDataclass, TwoBases):
        with pytest.raises(sd.errors.InvalidArgumentError, match=rf"{kind.__name__} .* Write @dataclass\(eq=False\) above its class"):
            kind("worker:0", trigger=Trigger(at=1.0))  # type: ignore[call-arg]


@pytest.mark.usefixtures("forgets")
def test_a_kind_without_parameters_of_its_own_needs_no_decorator() -> None:
    class Worse(Slow, kind="worse"):
        def lay(self, effects: Effects) -> Heal:
            return effects.slow(self.task, 2 * self.factor)

    cluster = sd.Cluster({"worker": 1})
    cluster.faults.add(Worse("worker:0", 2.0, trigger=Trigger(at=1.0)))  # type: ignore[call-arg]
    sd.sleep(2.0, cluster)
    assert cluster.world.tasks["worker:0"].slowness == 4.0


@pytest.mark.usefixtures("forgets")
def test_a_kind_that_hits_no_task_in_particular_begins_at_a_second_and_after_no_steps() -> None:
    class Everyone(Fault, kind="everyone"):
        @property
        def tasks(self) -> tuple[str, ...]:
            return ()

        def begin(self, effects: Effects) -> None:
            effects.slow("worker:0", 2.0)

    cluster = sd.Cluster({"worker": 1})
    fault = cluster.faults.add(Everyone(trigger=Trigger(at=1.0)))
    sd.sleep(2.0, cluster)
    assert fault.fired
    with pytest.raises(
        sd.errors.InvalidArgumentError, match="after_steps=3 counts the steps of the first task of a fault, and everyone has"
    ):
        cluster.faults.add(Everyone(trigger=Trigger(after_steps=3)))


@pytest.mark.usefixtures("forgets")
def test_a_parameter_with_a_name_of_plans_is_refused() -> None:
    @dataclass(eq=False)
    class Where(TaskFault, kind="where"):
        at: float = field(default=3.0, metadata=number("where"))

        def begin(self, effects: Effects) -> None: ...

    with pytest.raises(sd.errors.InvalidArgumentError, match="The parameter 'at' of Where has a name that is another thing in a plan"):
        sd.Cluster({"worker": 1}).faults.add(Where("worker:0", trigger=Trigger(at=1.0)))  # type: ignore[call-arg]


def test_a_kind_is_text() -> None:
    with pytest.raises(TypeError, match="kind=3 of Numbered must be text"):
        type("Numbered", (TaskFault,), {}, kind=3)
