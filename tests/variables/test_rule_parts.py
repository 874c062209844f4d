"""One state of a rule for each variable, in whatever order gradients come, and whether all come or some; and one count for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError


def servers() -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))


def run(strategy: Any, step: Any, *args: Any) -> None:
    if isinstance(strategy, sd.ParameterServerStrategy):
        sd.ClusterCoordinator(strategy).schedule(step, args=args).fetch()
    else:
        step(*args)


MAKERS = [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), servers]
GRADIENTS = [(np.array([0.5, -1.0], np.float32) * n, np.array([2.0, 1.0], np.float32) / n) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("make", MAKERS, ids=["device", "replicas", "servers"])
def test_the_order_of_variables_is_no_matter(make: Callable[[], Any]) -> None:
    strategy, rule = make(), optax.adam(0.1)
    with strategy.scope():
        a, b, optimizer = sd.Variable([1.0, 2.0], name="a"), sd.Variable([3.0, 4.0], name="b"), sd.Optimizer(rule)

    def step(order: int, one: Any, two: Any) -> None:
        part = strategy.num_replicas_in_sync
        strategy.run(lambda: optimizer.apply_gradients([(one / part, a), (two / part, b)][:: 1 - 2 * order]))

    values = [jnp.asarray([1.0, 2.0]), jnp.asarray([3.0, 4.0])]
    state = rule.init(values)
    steps = [sd.function(lambda one, two, order=order: step(order, one, two)) for order in (0, 1)]
    for number, pair in enumerate(GRADIENTS):
        run(strategy, steps[number % 2], *pair)
        updates, state = rule.update(list(map(jnp.asarray, pair)), state, values)
        values = [value + update for value, update in zip(values, updates, strict=True)]
    np.testing.assert_allclose([a.numpy(), b.numpy()], values, rtol=1e-6)
    assert (len(optimizer.rules), int(optimizer.iterations)) == (1, 4)


@pytest.mark.parametrize("make", MAKERS, ids=["device", "replicas", "servers"])
def test_a_variable_without_a_gradient_stays_and_so_does_its_momentum(make: Callable[[], Any]) -> None:
    strategy = make()
    with strategy.scope():
        c, d, optimizer = sd.Variable([1.0, 1.0]), sd.Variable([3.0, 3.0]), sd.Optimizer(optax.sgd(0.1, 0.9))
    optimizer.build([c, d])
    one = jnp.ones(2) / strategy.num_replicas_in_sync
    for pairs in ([(one, c), (one, d)], [(one, c), (None, d)], [(one, c), (one, d)]):
        run(strategy, sd.function(lambda pairs=pairs: strategy.run(lambda: optimizer.apply_gradients(pairs))))
    np.testing.assert_allclose(c.numpy(), np.full(2, 1.0 - 0.1 - 0.19 - 0.271), rtol=1e-6)
    np.testing.assert_allclose(d.numpy(), np.full(2, 3.0 - 0.1 - 0.19), rtol=1e-6)
    assert len(optimizer.rules) == 1


def test_sets_that_cannot_share_a_state_are_refused_and_disjoint_ones_have_one_each() -> None:
    with sd.OneDeviceStrategy().scope():
        a, b, c = (sd.Variable([1.0], name=name) for name in "abc")
        clipped = sd.Optimizer(optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)))
        plain = sd.Optimizer(optax.sgd(0.1, 0.9))
    one = jax.device_get(jnp.ones(1))
    clipped.apply_gradients([(one, a), (one, b)])
    with pytest.raises(InvalidArgumentError, match=r"for a, b\. Now there is no gradient of b,.*all of them together"):
        clipped.apply_gradients([(one, a), (None, b)])
    plain.apply_gradients([(one, a)])
    with pytest.raises(InvalidArgumentError, match=r"for a\. Now b shall change together.*build\(\)"):
        plain.apply_gradients([(one, a), (one, b)])
    plain.apply_gradients([(one, c)])
    assert [[variable.name for variable in rule] for rule in plain.rules] == [["a"], ["c"]]


TRAINED = ([0], [0], [0, 1], [1], [0, 1])
"""Of each step, which of two variables it trains; each lies on a server of its own."""


def two_servers(rule: Any, **options: Any) -> tuple[sd.ClusterCoordinator, list[sd.Variable], sd.Optimizer, Callable[[int], Any]]:
    cluster, size = options.pop("cluster", {"worker": 1, "ps": 2}), options.pop("size", 3)
    strategy = sd.ParameterServerStrategy(sd.Cluster(cluster, **options.pop("of_cluster", {})), **options)
    with strategy.scope():
        variables = [sd.Variable(np.full(size, first, np.float32), name=name) for name, first in (("a", 1.0), ("b", 2.0))]
        optimizer = sd.Optimizer(rule)
    optimizer.build(variables)

    def step_of(number: int) -> Any:
        chosen = [variables[which] for which in TRAINED[number]]

        @sd.function
        def step() -> None:
            _, gradients = sd.value_and_grad(lambda: sum((v.value**2).sum() for v in chosen), chosen)()
            optimizer.apply_gradients(zip(gradients, chosen, strict=True))

        return step

    return sd.ClusterCoordinator(strategy), variables, optimizer, step_of


@pytest.mark.parametrize("numerics", ["deferred", "eager"])
@pytest.mark.parametrize("make", [keras.optimizers.Adam, keras.optimizers.Nadam, lambda rate: keras.optimizers.SGD(schedule(rate))])
@pytest.mark.sample
def test_servers_count_the_updates_that_change_none_of_their_variables(make: Callable[[float], Any], numerics: str) -> None:
    coordinator, variables, optimizer, step_of = two_servers(make(0.1), of_cluster={"numerics": numerics})
    assert variables[0].device != variables[1].device
    alone = [keras.Variable(np.full(3, first, np.float32)) for first in (1.0, 2.0)]
    rule = make(0.1)
    rule.build(alone)
    for number, trained in enumerate(TRAINED):
        coordinator.schedule(step_of(number)).fetch()
        rule.apply_gradients([(2 * alone[which].value, alone[which]) for which in trained])
        for found, expected in zip(variables, alone, strict=True):
            np.testing.assert_allclose(found.numpy(), expected.value, rtol=1e-5)
    assert int(optimizer.iterations.numpy()) == int(rule.iterations.value) == len(TRAINED)


def schedule(rate: float) -> Any:
    return keras.optimizers.schedules.ExponentialDecay(rate, 1, 0.5)


@pytest.mark.parametrize("numerics", ["deferred", "replay", "vmap", "eager"])
@pytest.mark.sample(2)
def test_large_arrays_stay_where_they_are_while_an_update_is_counted(numerics: str) -> None:
    size = (2 << 20) // 4
    coordinator, variables, optimizer, step_of = two_servers(keras.optimizers.Adam(0.1), size=size, of_cluster={"numerics": numerics})
    small = two_servers(keras.optimizers.Adam(0.1), of_cluster={"numerics": "eager"})
    for number in range(len(TRAINED)):
        coordinator.schedule(step_of(number))
        small[0].schedule(small[3](number))
    coordinator.join()
    small[0].join()
    for found, expected in zip(variables, small[1], strict=True):
        np.testing.assert_allclose(found.numpy(), np.full(size, expected.numpy()[0]), rtol=1e-5)
    assert int(optimizer.iterations.numpy()) == len(TRAINED)


def test_all_servers_count_those_of_an_optax_rule_too() -> None:
    rule = optax.adam(0.1)
    coordinator, variables, _, step_of = two_servers(rule)
    values = [jnp.full(3, 1.0), jnp.full(3, 2.0)]
    state: Any = rule.init(values)
    for number, trained in enumerate(TRAINED):
        coordinator.schedule(step_of(number)).fetch()
        updates, new = rule.update([2 * value for value in values], state, values)
        values = [value + update if which in trained else value for which, (value, update) in enumerate(zip(values, updates, strict=True))]
        keep = [
            [
                after if which in trained else before
                for which, (before, after) in enumerate(zip(getattr(state[0], m), getattr(new[0], m), strict=True))
            ]
            for m in ("mu", "nu")
        ]
        state = (new[0]._replace(mu=keep[0], nu=keep[1]), *new[1:])
    for found, expected in zip(variables, values, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_a_round_counts_once_where_it_changes_nothing_and_is_refused_where_some_of_its_closures_do() -> None:
    options = {"cluster": {"worker": 2, "ps": 2}, "mode": "sync"}
    coordinator, variables, optimizer, step_of = two_servers(keras.optimizers.Adam(0.1), **options)
    for number in (0, 2, 3):
        for _ in range(2):
            coordinator.schedule(step_of(number))
        coordinator.join()
    alone, rule = [keras.Variable(np.full(3, first, np.float32)) for first in (1.0, 2.0)], keras.optimizers.Adam(0.1)
    rule.build(alone)
    for trained in ([0], [0, 1], [1]):
        rule.apply_gradients([(2 * alone[which].value, alone[which]) for which in trained])
    np.testing.assert_allclose([v.numpy() for v in variables], [v.value for v in alone], rtol=1e-5)
    assert int(optimizer.iterations.numpy()) == 3
    coordinator.schedule(step_of(0))
    coordinator.schedule(step_of(3))
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"ps:\d: closures of round 3 have gradients for different variables"):
        coordinator.join()


@pytest.mark.parametrize(
    "make", [lambda: keras.optimizers.Adam(0.1, use_ema=True), lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))]
)
def test_what_follows_all_gradients_is_not_given_those_of_one_server(make: Callable[[], Any]) -> None:
    coordinator, _, _, step_of = two_servers(make())
    with pytest.raises(InvalidArgumentError, match=r"no gradient of b, nor .* on ps:1, and .* all variables in each update"):
        coordinator.schedule(step_of(0)).fetch()
