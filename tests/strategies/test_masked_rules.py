"""Optax rules that treat variables differently (``multi_transform``, ``masked``): each variable has its own slots, wherever it lies."""

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

ROWS = {"a": [1, 2, 2], "b": [3, 4, 5, 6]}


def both(rate: float = 0.3) -> Any:
    rules = {"x": optax.adagrad(rate), "y": optax.adagrad(rate / 2)}
    return optax.multi_transform(rules, ["x", "y"])


def plain(rule: Any, steps: int) -> list[np.ndarray]:
    """The tables after some steps of JAX alone."""
    tables: Any = [jnp.ones((30, 2)), jnp.ones((20, 2))]
    state, places = rule.init(tables), [jnp.asarray(rows) for rows in ROWS.values()]
    for _ in range(steps):
        gradients = jax.grad(lambda given: sum((table[rows] ** 2).sum() for table, rows in zip(given, places, strict=True)))(tables)
        updates, state = rule.update(gradients, state, tables)
        tables = optax.apply_updates(tables, updates)
    return list(map(np.asarray, tables))


class Training:
    """Two tables that are read by rows."""

    def __init__(self, strategy: Any, rule: Any) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.tables = [sd.Variable(np.ones(shape, np.float32)) for shape in ((30, 2), (20, 2))]
            self.optimizer = sd.Optimizer(rule)
        places = [np.array(rows, np.int32) for rows in ROWS.values()]

        @sd.function
        def step(*ids: Any) -> None:
            def loss() -> Any:
                return sum((sd.embedding_lookup(table, rows) ** 2).sum() for table, rows in zip(self.tables, ids, strict=True))

            _, gradients = sd.value_and_grad(loss, self.tables)()
            self.optimizer.apply_gradients(zip(gradients, self.tables, strict=True))

        self.step, self.places = step, places

    def train(self, steps: int) -> Training:
        if isinstance(self.strategy, sd.ParameterServerStrategy):
            coordinator = sd.ClusterCoordinator(self.strategy)
            for _ in range(steps):
                coordinator.schedule(self.step, args=tuple(self.places))
                coordinator.join()
        else:
            for _ in range(steps):
                self.strategy.run(self.step, args=tuple(self.places))
        return self

    @property
    def values(self) -> list[np.ndarray]:
        return [table.numpy() for table in self.tables]


def servers(count: int) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": count}), sd.FixedShardsPartitioner(count))


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("make", [lambda: servers(1), lambda: servers(2), sd.OneDeviceStrategy], ids=["1 server", "2 servers", "1 device"])
@pytest.mark.parametrize(
    "rule",
    [both, lambda: optax.chain(optax.masked(optax.scale_by_rss(), [True, False]), optax.sgd(0.1))],
    ids=["two rules", "one table has slots"],
)
def test_tables_that_are_read_by_rows_have_their_own_slots(make: Callable[[], Any], rule: Callable[[], Any]) -> None:
    found = Training(make(), rule()).train(4).values
    for own, expected in zip(found, plain(rule(), 4), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5)


@pytest.mark.parametrize("counts", [(2, 2), (1, 3)])
@pytest.mark.sample(2)
def test_slots_are_saved_and_restored_by_variable(counts: tuple[int, int], tmp_path: Any) -> None:
    first = Training(servers(counts[0]), both()).train(3)
    path = sd.Checkpoint(optimizer=first.optimizer, a=first.tables[0], b=first.tables[1]).save(str(tmp_path / "saved"))
    second = Training(servers(counts[1]), both())
    second.optimizer.build(second.tables)
    sd.Checkpoint(optimizer=second.optimizer, a=second.tables[0], b=second.tables[1]).restore(path)
    for own, expected in zip(second.train(3).values, plain(both(), 6), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5)


def of_a_dict() -> Any:
    """A rule that keeps sums of gradients, by the numbers of variables in a dict."""

    def init(params: Any) -> Any:
        return {str(number): jnp.zeros_like(param) for number, param in enumerate(params)}

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        sums = [state[str(number)] + gradient for number, gradient in enumerate(updates)]
        return [-0.1 * total for total in sums], {str(number): total for number, total in enumerate(sums)}

    return optax.GradientTransformation(init, update)


def test_state_that_belongs_to_no_single_variable_is_not_saved_as_if_it_were_one() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        variables = [sd.Variable(np.ones(4, np.float32)) for _ in range(2)]
        optimizer = sd.Optimizer(of_a_dict())
    optimizer.build(variables)
    with pytest.raises(InvalidArgumentError, match=r"shape \(4,\) that belongs to no single variable, and ps:0, ps:1 each have one"):
        optimizer.saved_state()


def test_labels_for_all_variables_are_refused_where_a_server_has_some_of_them() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        variables = [sd.Variable(np.ones(4, np.float32)) for _ in range(2)]
        optimizer = sd.Optimizer(both())
    with pytest.raises(InvalidArgumentError, match=r"what ps:\d holds of 2 variables.*labels and masks as a function of them"):
        optimizer.build(variables)
