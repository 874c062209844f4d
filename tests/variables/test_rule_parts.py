"""One state of an Optax transformation for each variable, in whatever order its gradients come, and whether all come or some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
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
