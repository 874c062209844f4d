"""Collectives inside functions of JAX: derivatives of any order, and vmap, against one function of the values of all replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd

X = np.arange(1, 10, dtype=np.float32).reshape(3, 3) / 8
NUM = len(X)


def in_replicas(function: Callable[[Any, Any], Any]) -> list[Any]:
    """What a function of the context and of one row of X returns in each replica."""
    strategy = sd.MirroredStrategy(NUM)
    rows = strategy.distribute_values_from_function(lambda context: X[context.replica_id_in_sync_group])
    return list(strategy.local_results(strategy.run(lambda row: function(sd.get_replica_context(), row), args=(rows,))))


def gathered(context: Any, row: Any) -> Any:
    """Cubes of everything, times what only this replica has."""
    return (context.all_gather(row[None], axis=0) ** 3).sum() * (1 + row.sum())


def reduced(context: Any, row: Any) -> Any:
    return (context.all_reduce("sum", row**2) ** 2).sum() * (1 + row.sum())


def of_all(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The sum over the replicas of the same, of all rows."""
    return lambda rows: sum(function(rows) * (1 + row.sum()) for row in rows)


CASES = [(gathered, of_all(lambda rows: (rows**3).sum())), (reduced, of_all(lambda rows: ((rows**2).sum(axis=0) ** 2).sum()))]


def squared_gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (jax.grad(function)(x) ** 2).sum()


@pytest.mark.parametrize(("collective", "whole"), CASES)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.sample
def test_derivative_of_any_order_is_that_of_the_sum_over_the_replicas(
    collective: Callable[[Any, Any], Any], whole: Callable[[Any], Any], order: int
) -> None:
    def derived(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for _ in range(order - 1):
            function = squared_gradient(function)
        return jax.grad(function)

    found = in_replicas(lambda context, row: derived(lambda x: collective(context, x))(row))
    assert np.stack(found) == pytest.approx(np.asarray(derived(whole)(jnp.asarray(X))), rel=1e-4)


def test_derivative_of_a_gather_of_parts_with_other_lengths() -> None:
    parts = [X[0, :1], X[1, :2], X[2]]
    strategy = sd.MirroredStrategy(NUM)
    given = strategy.distribute_values_from_function(lambda context: parts[context.replica_id_in_sync_group])

    def second(part: Any) -> Any:
        context: Any = sd.get_replica_context()
        return jax.grad(squared_gradient(lambda x: (context.all_gather(x, axis=0) ** 3).sum()))(part)

    # each replica has f = sum of all cubes: the gradient of their sum is 9 x^2, of its square 324 x^3
    for found, part in zip(strategy.local_results(strategy.run(second, args=(given,))), parts, strict=True):
        assert np.asarray(found) == pytest.approx(324 * part**3, rel=1e-5)


def test_collectives_inside_vmap_are_those_of_each_element() -> None:
    def mapped(context: Any, row: Any) -> Any:
        both = jax.vmap(lambda x: context.all_gather(jnp.stack([x, 2 * x]), axis=0))(row)
        return both, jax.vmap(lambda x: context.all_reduce("sum", x))(row), jax.vmap(jax.grad(lambda x: gathered(context, x[None])))(row)

    results = in_replicas(mapped)
    for both, total, _ in results:
        assert np.asarray(both).tolist() == np.stack([X.T, 2 * X.T], axis=2).reshape(NUM, -1).tolist()
        assert np.asarray(total) == pytest.approx(X.sum(axis=0))
    alone = jax.vmap(jax.grad(of_all(lambda column: (column**3).sum())), in_axes=1, out_axes=1)(jnp.asarray(X))
    assert np.stack([gradients for _, _, gradients in results]) == pytest.approx(np.asarray(alone), rel=1e-5)


@pytest.mark.parametrize("others", [1.0, 0.0])
def test_a_loss_that_depends_on_other_collectives_than_those_of_the_others_is_refused(others: float) -> None:
    """What flows back through the first of one replica would be added to what flows back through the second of the other."""
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        variable = sd.Variable(1.0)

    def replica_fn(rank: int) -> Any:
        context = sd.get_replica_context()
        assert context is not None

        def loss() -> Any:
            sums = [context.all_reduce("sum", variable.value * (rank + 1.0) * factor) for factor in (1.0, 10.0)]
            return sums[rank] + (0.0 * sums[1 - rank] if others else 0.0)

        return sd.value_and_grad(loss, [variable])()

    ranks = strategy.distribute_values_from_function(lambda context: context.replica_id_in_sync_group)
    step = sd.function(lambda: strategy.run(replica_fn, args=(ranks,)))
    if others:
        assert [float(part) for part in strategy.local_results(step()[1][0])] == [11.0, 22.0]
    else:
        with pytest.raises(sd.errors.InvalidArgumentError, match=r"the loss of replica 0 depends on all_reduce of float32\[\] \(number 0"):
            step()


def test_launched_mains_whose_losses_depend_on_different_collectives_do_not_add_one_to_the_other() -> None:
    """Each main traces its own step, so only what comes to the collective shows it: 2 and 40 were the gradients for 11 and 22."""

    def main() -> list[float]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            variable = sd.Variable(1.0)
        rank = strategy.cluster_resolver.task_id

        def replica_fn() -> Any:
            context = sd.get_replica_context()
            assert context is not None
            return sd.value_and_grad(
                lambda: [context.all_reduce("sum", variable.value * (rank + 1.0) * factor) for factor in (1.0, 10.0)][rank], [variable]
            )()

        step = sd.function(lambda: strategy.run(replica_fn))
        return [float(part) for part in strategy.local_results(step()[1][0])]

    run = sd.Cluster(sd.ClusterSpec({"worker": 2})).launch(main)
    with pytest.raises(
        sd.errors.InvalidArgumentError, match=r"worker:0 came to all_reduce of float32\[\] \(number 0 of its step\), but worker:1"
    ):
        run.join()


def counted(context: Any, row: Any) -> Any:
    """Whole numbers beside numbers with a derivative, in one collective each."""
    total, count, positive = context.all_reduce("sum", (row**2, (8 * row).astype(jnp.int32), row > 0.5))
    every, whole = context.all_gather((row, (8 * row).astype(jnp.int32)), axis=0)
    return (total * count * positive).sum() * (1 + row.sum()) + (every * whole).sum()


def counted_of_all(rows: Any) -> Any:
    whole = (8 * X).astype(np.int32)
    total = ((rows**2).sum(axis=0) * whole.sum(axis=0) * (X > 0.5).sum(axis=0)).sum()
    return sum(total * (1 + row.sum()) + (rows * whole).sum() for row in rows)


def test_whole_numbers_in_a_collective_have_no_derivative_and_the_numbers_beside_them_have_theirs() -> None:
    found = in_replicas(lambda context, row: jax.grad(lambda x: counted(context, x))(row))
    assert np.stack(found) == pytest.approx(np.asarray(jax.grad(counted_of_all)(jnp.asarray(X))), rel=1e-5)


@pytest.mark.parametrize(("launched", "order"), [(True, 1), (False, 2)])
def test_what_flows_back_from_the_value_of_the_first_replica_flows_to_it(launched: bool, order: int) -> None:
    def of_first(strategy: Any) -> list[Any]:
        with strategy.scope():
            of_each, of_first_alone = sd.VariableSynchronization.ON_READ, sd.VariableAggregation.ONLY_FIRST_REPLICA
            kept = sd.Variable(np.zeros(3, np.float32), trainable=False, synchronization=of_each, aggregation=of_first_alone)
            weight = sd.Variable(np.ones(3, np.float32))
        rows = strategy.distribute_values_from_function(lambda context: X[context.replica_id_in_sync_group])

        def of(row: Any) -> Any:
            kept.assign(row * weight.value)
            first = sd.get_replica_context().merge_call(lambda _: kept.value * 1.0)  # type: ignore[union-attr]
            return (first**3).sum() * (1 + (row * weight.value).sum())

        def replica_fn(row: Any) -> Any:
            def loss() -> Any:
                return of(row) if order == 1 else (sd.value_and_grad(lambda: of(row), [weight])()[1][0] ** 2).sum()

            return sd.value_and_grad(loss, [weight])()[1][0]

        return [np.asarray(part) for part in strategy.local_results(strategy.run(replica_fn, args=(rows,)))]

    if launched:
        run = sd.Cluster({"worker": NUM}).launch(lambda: of_first(sd.MultiWorkerMirroredStrategy()))
        run.join()
        found = [part for _, parts in sorted(run.results.items()) for part in parts]
    else:
        found = of_first(sd.MirroredStrategy(NUM))

    def whole(weights: Any) -> Any:
        return sum(((X[0] * weights[0]) ** 3).sum() * (1 + (row * weight).sum()) for row, weight in zip(X, weights, strict=True))

    function = whole if order == 1 else lambda weights: (jax.grad(whole)(weights) ** 2).sum()
    assert np.stack(found) == pytest.approx(np.asarray(jax.grad(function)(jnp.ones((NUM, 3)))), rel=1e-4)


def test_what_flows_back_to_the_first_replica_needs_all_of_them() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": NUM}), backup_workers=1)
    with strategy.scope():
        kept = sd.Variable(0.0, trainable=False, synchronization="ON_READ", aggregation="ONLY_FIRST_REPLICA")
        weight = sd.Variable(1.0)

    def loss() -> Any:
        kept.assign(weight.value)
        return sd.get_replica_context().merge_call(lambda _: kept.value * 1.0)  # type: ignore[union-attr]

    with pytest.raises(sd.errors.FailedPreconditionError, match=r"reduce of float32\[\] needs what all replicas have"):
        strategy.run(lambda: sd.value_and_grad(loss, [weight])()[1][0])
