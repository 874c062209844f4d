"""A step that a plain function calls on a worker is a step of its closure: the numbers, times and counts are those of a scheduled step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras

Plan = Callable[[sd.Cluster], object]
ROWS = np.arange(1.0, 49.0, dtype=np.float32)
OPTIONS: list[dict[str, Any]] = [{}, {"exactly_once": True}, {"mode": "sync"}, {"recovery": "replica", "exactly_once": True}]
FAULTS: dict[str, Plan] = {
    "a crash": lambda cluster: cluster.faults.crash("worker:0", at=2.5, restart_after=0.4),
    "a pause": lambda cluster: cluster.faults.pause("worker:0", at=2.5, until=14.0),
    "a silent worker": lambda cluster: cluster.faults.partition("worker:0", "chief:0", at=2.5, until=20.0),
    "a silent server": lambda cluster: cluster.faults.partition("worker:0", "ps:0", at=2.5, until=20.0),
}


def cut(seconds: float | None, function: Any) -> Any:
    """The function as a step; without seconds as it is."""
    return function if seconds is None else sd.function(seconds=seconds)(function)


class Training:
    """Closures that each take a batch of a per-worker dataset, and change two variables by a random part of its sum.

    Args:
        kind: what is scheduled. "scheduled": a step; "step": a plain function that calls a step; "run": one that calls strategy.run.
        devices, workers, engine: of the cluster.
        faults: plans them.
        options: of the strategy.
    """

    def __init__(
        self, kind: str, devices: int = 1, workers: int = 2, engine: Any = "simulated", faults: Plan | None = None, **options: Any
    ) -> None:
        self.cluster = sd.Cluster({"worker": workers, "ps": 2}, seed=5, engine=engine)
        self.strategy = strategy = sd.ParameterServerStrategy(self.cluster, devices_per_worker=devices, **options)
        with strategy.scope():
            self.weight = weight = sd.Variable(jnp.float32(0.5), aggregation="sum")
            self.seen = seen = sd.Variable(jnp.float32(0.0), synchronization="on_read", aggregation="sum")
            generator = keras.random.SeedGenerator(1)
        self.coordinator = sd.ClusterCoordinator(strategy)
        if faults is not None:
            faults(self.cluster)
        data = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(ROWS).batch(4).repeat())
        self.rows = iter(self.coordinator.create_per_worker_dataset(data, resume=True))

        def replica(rows: Any) -> Any:
            noise = keras.random.uniform((), seed=generator)
            seen.assign_add(jnp.float32(rows.shape[0]))
            weight.assign_add(weight.value * 0.01 + rows.sum() * noise)
            return rows.sum() * noise

        of_replica = cut(1.0 if kind == "run" else None, replica)

        def run(iterator: Any) -> Any:
            return strategy.reduce("sum", strategy.run(of_replica, args=(next(iterator),)), axis=None)

        step = cut(None if kind == "run" else 1.0, run)
        self.function = (lambda iterator: step(iterator)) if kind == "step" else step

    def taken(self, closures: int) -> dict[str, Any]:
        """Run so many closures; what they have left."""
        results = [self.coordinator.schedule(self.function, args=(self.rows,)) for _ in range(closures)]
        self.coordinator.join()
        return {
            "results": [float(np.asarray(result.fetch())) for result in results],
            "weight": float(self.weight.numpy()),
            "seen": float(self.seen.numpy()),
            "steps": [self.cluster.engine.steps_of(worker) for worker in self.strategy.workers],
        }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", ["step", "run"])
@pytest.mark.sample
def test_a_step_in_a_plain_function_gives_what_a_scheduled_step_gives(kind: str, devices: int, options: dict[str, Any]) -> None:
    expected, found = Training("scheduled", devices, **options), Training(kind, devices, **options)
    assert found.taken(9) == expected.taken(9)
    assert found.cluster.now == pytest.approx(expected.cluster.now, rel=1e-3)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", ["step", "run"])
def test_without_a_clock_it_is_the_same(kind: str, devices: int) -> None:
    assert Training(kind, devices, engine="in_process").taken(5) == Training("scheduled", devices, engine="in_process").taken(5)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.sample
def test_after_a_fault_each_closure_counts_once_and_draws_what_it_drew(devices: int, fault: str) -> None:
    undisturbed = Training("scheduled", devices, workers=1, exactly_once=True).taken(8)
    runs = [Training(kind, devices, workers=1, faults=FAULTS[fault], exactly_once=True).taken(8) for kind in ("scheduled", "run", "run")]
    assert runs[1] == runs[0] == runs[2]
    assert {**runs[1], "steps": undisturbed["steps"]} == undisturbed


@pytest.mark.sample
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_among_two_workers_a_fault_does_to_it_what_it_does_to_a_scheduled_step(options: dict[str, Any], fault: str) -> None:
    runs = [Training(kind, 2, faults=FAULTS[fault], **options) for kind in ("scheduled", "run", "run")]
    expected, found, again = [run.taken(24) for run in runs]
    assert found == expected and again == found
    assert runs[1].cluster.trace.digest() == runs[2].cluster.trace.digest()


def test_a_server_that_comes_back_is_waited_for() -> None:
    def faults(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:0", at=2.5, restart_after=1.0)

    options: dict[str, Any] = {"recovery": "replica", "exactly_once": True, "faults": faults}
    assert Training("run", 2, **options).taken(12) == Training("scheduled", 2, **options).taken(12)


# -- what one function may do -----------------------------------------------------------------------------------------


def made(devices: int = 1, **options: Any) -> tuple[sd.ClusterCoordinator, sd.Variable, sd.Variable]:
    """A coordinator of one worker, a variable on a server, and one on the chief."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), devices_per_worker=devices, **options)
    with strategy.scope():
        v = sd.Variable(jnp.float32(1.0), name="v", aggregation="sum")
        return sd.ClusterCoordinator(strategy), v, sd.Variable(0.0, name="m", synchronization="on_read", aggregation="sum")


def test_replicas_of_a_plain_function_are_a_step_too() -> None:
    coordinator, v, _ = made(devices=2)
    strategy = coordinator.strategy
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.25)

    def replica() -> Any:
        loss, gradients = sd.value_and_grad(lambda: v.value**2, [v])()
        optimizer.apply_gradients(zip(gradients, [v], strict=True))
        return loss

    result = coordinator.schedule(lambda: strategy.reduce("mean", strategy.run(replica), axis=None))
    coordinator.join()
    assert (float(result.fetch()), float(v)) == (1.0, 0.0)  # 1 - 0.25 * (2 + 2)
    assert {"worker:0/gpu:0", "worker:0/gpu:1"} <= {span.lane for span in strategy.cluster.trace.spans.where(category="compute")}


def test_a_function_may_take_several_steps_and_decide_by_their_values() -> None:
    coordinator, v, _ = made(exactly_once=True)
    double = sd.function(seconds=1.0)(lambda: (v.assign(v.value * 2.0), v.value)[1])

    def until_large() -> int:
        steps = 0
        while float(double()) < 30.0:
            steps += 1
        return steps

    coordinator.strategy.cluster.faults.crash("worker:0", at=2.5, restart_after=1.0)
    result = coordinator.schedule(until_large)
    coordinator.join()
    assert result.fetch() == 4 and float(v) == 32.0


def test_the_error_of_a_step_can_be_caught_and_the_worker_goes_on() -> None:
    coordinator, v, _ = made(devices=2)
    fails = sd.function(lambda x: sd.check_numerics(jnp.log(x), "a logarithm"))
    adds = sd.function(lambda: v.assign_add(v.value))

    def function() -> str:
        with pytest.raises(sd.errors.InvalidArgumentError, match="a logarithm"):
            fails(jnp.float32(-1.0))
        adds()
        return "went on"

    assert coordinator.schedule(function).fetch() == "went on"
    coordinator.schedule(lambda: fails(jnp.float32(-1.0)))
    with pytest.raises(sd.errors.InvalidArgumentError, match="a logarithm"):
        coordinator.join()
    coordinator.schedule(adds)
    coordinator.join()
    assert float(v) == 4.0


def test_what_counts_with_the_reply_is_not_used_before() -> None:
    coordinator, _, m = made()
    counts = sd.function(lambda: m.assign_add(1.0))
    for use in (lambda: float(m), lambda: m.assign(0.0)):
        coordinator.schedule(lambda use=use: (counts(), use()))
        with pytest.raises(sd.errors.FailedPreconditionError, match=r"m was changed by a step .*, which counts on chief:0 when"):
            coordinator.join()
    assert coordinator.schedule(lambda: (float(m), counts(), "read before")).fetch()[2] == "read before"
    assert float(m) == 1.0


@pytest.mark.parametrize("options", [{"mode": "sync"}, {"mode": "bounded", "staleness": 1}], ids=str)
def test_in_rounds_a_function_takes_one_step_that_changes_something(options: dict[str, Any]) -> None:
    coordinator, v, _ = made(devices=2, **options)
    step = sd.function(lambda: v.assign_add(v.value))
    coordinator.schedule(lambda: (step(), step()))
    with pytest.raises(
        sd.errors.FailedPreconditionError, match="second step of closure 0 on worker:0, a plain function, after one that changes variables"
    ):
        coordinator.join()
    coordinator.schedule(lambda: (step(), float(v)))
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"v was changed by a step .*, which counts with its round"):
        coordinator.join()
    fails = sd.function(lambda x: (v.assign_add(x * 1.0), sd.check_numerics(jnp.log(x), "a logarithm")))

    def goes_on() -> None:
        with pytest.raises(sd.errors.InvalidArgumentError, match="a logarithm"):
            fails(jnp.float32(-1.0))
        step()

    coordinator.schedule(goes_on)
    with pytest.raises(sd.errors.FailedPreconditionError, match="second step of closure"):
        coordinator.join()
    look = sd.function(lambda: v.value + 1.0)
    assert coordinator.schedule(lambda: (float(v), float(look()), step())).fetch()[:2] == (1.0, 2.0)
    coordinator.join()
    assert float(v) == 2.0


@pytest.mark.sample
@pytest.mark.parametrize("fault", [None, "a crash", "a pause", "a silent worker"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_function_may_look_at_gradients_before_it_applies_them(options: dict[str, Any], fault: str | None) -> None:
    def trained(plain: bool) -> list[float]:
        given: dict[str, Any] = {**options, "exactly_once": True}
        strategy = sd.ParameterServerStrategy(cluster := sd.Cluster({"worker": 1, "ps": 2}), **given)
        with strategy.scope():
            v, w = (sd.Variable(jnp.float32(value)) for value in (1.0, 2.0))
            optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
        coordinator = sd.ClusterCoordinator(strategy)
        if fault is not None:
            FAULTS[fault](cluster)

        def function() -> Any:
            _, gradients = sd.value_and_grad(lambda: (v.value * w.value - 3.0) ** 2, [v, w])()
            if plain:
                sd.sleep(0.7)  # a fault comes
            optimizer.apply_gradients(zip(gradients, [v, w], strict=True))

        for _ in range(6):
            coordinator.schedule(function if plain else sd.function(function))
        coordinator.join()
        assert int(np.asarray(optimizer.iterations)) == 6
        return [float(v), float(w)]

    assert trained(plain=True) == pytest.approx(trained(plain=False), rel=1e-6)


@pytest.mark.parametrize("fault", [None, "a server that is away", *FAULTS])
@pytest.mark.parametrize("options", [{"mode": "sync"}, {"mode": "sync", "backup_workers": 1}], ids=str)
def test_in_rounds_a_function_sees_the_rounds_that_a_step_would_see(options: dict[str, Any], fault: str | None) -> None:
    def away(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:0", at=2.00005, restart_after=0.5)

    def seen(plain: bool) -> list[float]:
        strategy = sd.ParameterServerStrategy(cluster := sd.Cluster({"worker": 2, "ps": 2}), recovery="replica", **options)
        with strategy.scope():
            v = sd.Variable(jnp.float32(0.0), aggregation="sum")
        coordinator = sd.ClusterCoordinator(strategy)
        if fault is not None:
            FAULTS.get(fault, away)(cluster)
        step = sd.function(seconds=1.0)(lambda: (v.value, v.assign_add(jnp.float32(1.0)))[0])
        results = [coordinator.schedule((lambda: (float(v), step())[0]) if plain else step) for _ in range(12)]
        coordinator.join()
        assert float(v) == 12.0
        return [float(result.fetch()) for result in results]

    assert seen(plain=True) == seen(plain=False)


def test_a_worker_that_was_replaced_takes_no_more_steps_of_its_function() -> None:
    faults = FAULTS["a silent worker"]
    strategy = sd.ParameterServerStrategy(cluster := sd.Cluster({"worker": 2, "ps": 1}))
    coordinator, tried = sd.ClusterCoordinator(strategy), list[str]()
    faults(cluster)
    step = sd.function(seconds=30.0)(lambda: jnp.float32(1.0))

    def function() -> float:
        try:
            return float(step())
        except sd.errors.AbortedError:
            with pytest.raises(sd.errors.AbortedError, match="was replaced") as caught:
                step()
            tried.append(str(caught.value).split(" was")[0])
            raise

    coordinator.schedule(function)
    coordinator.join()
    cluster.engine.sleep(60.0)
    assert tried == ["worker:0"] and [strategy.engine.steps_of(worker) for worker in strategy.workers] == [0, 1]


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_a_step_of_another_strategy_is_refused(engine: Any) -> None:
    coordinator, _, _ = made()
    other = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, engine=engine))
    coordinator.schedule(lambda: other.run(sd.function(lambda: 1)))
    with pytest.raises(TypeError, match="A step was called directly under ParameterServerStrategy"):
        coordinator.join()


@pytest.mark.parametrize("devices", [1, 2])
def test_without_numbers_a_step_gives_none_and_takes_its_time(devices: int) -> None:
    def run(numerics: Any) -> tuple[float, list[Any]]:
        strategy = sd.ParameterServerStrategy(cluster := sd.Cluster({"worker": 2, "ps": 1}, numerics=numerics), devices_per_worker=devices)
        with strategy.scope():
            v = sd.Variable(jnp.float32(1.0), aggregation="mean")
        step = sd.function(seconds=1.0)(lambda: (v.assign(v.value * 2.0), v.value)[1])
        coordinator = sd.ClusterCoordinator(strategy)
        results = [coordinator.schedule(lambda: (step() is None, "done")) for _ in range(4)]
        coordinator.join()
        found = [result.fetch() for result in results]
        assert (step() is None) == (numerics == "off")  # on the chief
        return cluster.now, found

    (seconds, found), (expected_s, _) = run("off"), run("deferred")
    assert found == [(True, "done")] * 4 and seconds == pytest.approx(expected_s, rel=1e-12)


def test_without_numbers_gradients_outside_of_steps_are_refused() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, numerics="off"))
    with strategy.scope():
        v = sd.Variable(1.0)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(lambda: sd.value_and_grad(lambda: v.value**2, [v])())
    with pytest.raises(sd.errors.FailedPreconditionError, match="outside of every step, on a cluster with numerics="):
        coordinator.join()


@pytest.mark.sample
@pytest.mark.parametrize("fault", [None, "a crash"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_model_that_a_plain_function_trains_is_changed_on_its_servers(options: dict[str, Any], fault: str | None) -> None:
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)

    def trained(plain: bool) -> tuple[list[Any], int]:
        given: dict[str, Any] = {**options, "exactly_once": True}
        strategy = sd.ParameterServerStrategy(cluster := sd.Cluster({"worker": 1, "ps": 2}), **given)
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
            optimizer = keras.optimizers.Adam(0.1)
        coordinator = sd.ClusterCoordinator(strategy)
        if fault is not None:
            FAULTS[fault](cluster)

        def function() -> None:
            _, gradients = sd.value_and_grad(lambda: (model(x) ** 2).mean(), model.trainable_variables)()
            if plain:
                sd.sleep(0.7)  # a fault comes
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        for _ in range(6):
            coordinator.schedule(function if plain else sd.function(function))
        coordinator.join()
        assert int(np.asarray(optimizer.iterations)) == 6
        return model.get_weights(), len(list(cluster.trace.spans.where(category="apply")))

    (found, num_applied), (expected, num_expected) = trained(plain=True), trained(plain=False)
    assert num_applied == num_expected > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
