"""The global batch of a loss: each of several batches of a step by its size, and no guess where parts of one length are of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError

VALUES = np.arange(15.0, dtype=np.float32) ** 2
FIRST, LAST = VALUES[:8].mean(), VALUES[8:].mean()  # batches of 8 and 7 rows: the first of two replicas has 4 of each
AMBIGUOUS = r"4 rows of batches of 7 and 8 rows.*global_batch_size=.*strategy\.run by itself"


def batches(strategy: Any, values: np.ndarray = VALUES) -> Any:
    return iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(values).batch(8)))


def average(losses: Any) -> Any:
    return sd.compute_average_loss(losses)


def of_all(strategy: Any, value: Any) -> float:
    return float(strategy.reduce("sum", value, axis=None))


def one_after_the_other(strategy: Any, iterator: Any) -> tuple[Any, Any]:
    first = strategy.run(average, args=(next(iterator),))
    return first, strategy.run(average, args=(next(iterator),))


def both_first(strategy: Any, iterator: Any) -> tuple[Any, Any]:
    first, last = next(iterator), next(iterator)
    return strategy.run(average, args=(first,)), strategy.run(average, kwargs={"losses": last})


def prepared(strategy: Any, iterator: Any) -> tuple[Any, Any]:
    first, last = (strategy.run(lambda x: x * 1.0, args=(next(iterator),)) for _ in range(2))
    return strategy.run(average, args=(first,)), strategy.run(average, args=(last,))


@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("losses", [one_after_the_other, both_first, prepared])
def test_each_batch_of_a_step_has_its_size_in_a_run_of_its_own(losses: Callable[..., tuple[Any, Any]], run_eagerly: bool) -> None:
    strategy = sd.MirroredStrategy(2)
    step = sd.function(lambda iterator: losses(strategy, iterator))
    step.run_eagerly = run_eagerly
    first, last = step(batches(strategy))
    np.testing.assert_allclose([of_all(strategy, first), of_all(strategy, last)], [FIRST, LAST], rtol=1e-6)


def test_a_batch_that_a_run_is_given_outside_of_a_step_has_its_size() -> None:
    strategy = sd.MirroredStrategy(2)
    for loss in (average, sd.function(average)):
        found = of_all(strategy, strategy.run(loss, args=(next(batches(strategy, VALUES[8:])),)))
        np.testing.assert_allclose(found, LAST, rtol=1e-6)


def both(one: Any, other: Any) -> Any:
    return sd.compute_average_loss(one) + 0.0 * sd.compute_average_loss(other)


@pytest.mark.parametrize("in_a_step", [False, True])
def test_parts_of_one_length_of_batches_of_two_sizes_are_refused(in_a_step: bool) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v, optimizer = sd.Variable(1.0), sd.Optimizer(optax.sgd(1.0))

    def replica(one: Any, other: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: both(v.value * one, v.value * other), [v])()
        optimizer.apply_gradients(zip(gradients, [v], strict=True))

    def step(iterator: Any) -> None:
        strategy.run(replica, args=(next(iterator), next(iterator)))

    with pytest.raises(InvalidArgumentError, match=AMBIGUOUS):
        (sd.function(step) if in_a_step else step)(batches(strategy))
    assert float(v.numpy()) == 1.0


def test_a_value_of_unknown_origin_may_be_of_each_batch_of_the_step() -> None:
    strategy = sd.MirroredStrategy(2)

    @sd.function
    def step(iterator: Any) -> Any:
        first, last = next(iterator), next(iterator)
        mixed = strategy.run(lambda one, other: other[:4] + one[: len(other)], args=(first, last))
        return strategy.run(average, args=(mixed,))

    with pytest.raises(InvalidArgumentError, match=AMBIGUOUS):
        step(batches(strategy))


def test_batches_of_one_size_and_parts_of_different_lengths_are_no_matter() -> None:
    strategy = sd.MirroredStrategy(2)
    step = sd.function(lambda one, other: strategy.run(both, args=(next(one), next(other))))
    for one, other in [(VALUES[:7], VALUES[8:]), (VALUES[:8], VALUES[:4])]:
        found = of_all(strategy, step(batches(strategy, one), batches(strategy, other)))
        np.testing.assert_allclose(found, one.mean(), rtol=1e-6)


def test_a_replica_without_rows_of_either_batch_needs_no_size() -> None:
    strategy = sd.MirroredStrategy(2)
    one, other = (
        iter(strategy.distribute_datasets_from_function(lambda _, values=values: sd.Dataset.from_tensor_slices(values).batch(8)))
        for values in (VALUES[:8], VALUES[8:])
    )
    step = sd.function(lambda one, other: strategy.run(both, args=(next(one), next(other))))
    np.testing.assert_allclose(of_all(strategy, step(one, other)), FIRST, rtol=1e-6)


HARDEST = np.arange(1, 10, dtype=np.float32)  # a batch of 9 rows: parts of 5 and 4


def of_nine(strategy: Any) -> Any:
    return iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(HARDEST).batch(9)))


@pytest.mark.parametrize("how", ["outside", "in a step", "eagerly"])
@pytest.mark.parametrize("count, expected", [(4, np.r_[HARDEST[1:5], HARDEST[5:9]].mean()), (3, np.r_[HARDEST[2:5], HARDEST[6:9]].mean())])
def test_losses_of_some_rows_have_one_size_on_all_replicas(how: str, count: int, expected: float) -> None:
    strategy = sd.MirroredStrategy(2)

    def hardest(x: Any) -> Any:
        return sd.compute_average_loss(jax.lax.top_k(x, count)[0])

    step = sd.function(lambda iterator: strategy.run(hardest, args=(next(iterator),)))
    step.run_eagerly = how == "eagerly"
    data = of_nine(strategy)
    found = strategy.run(hardest, args=(next(data),)) if how == "outside" else step(data)
    np.testing.assert_allclose(of_all(strategy, found), expected, rtol=1e-6)


def test_a_loss_of_some_rows_beside_one_of_all_rows() -> None:
    strategy = sd.MirroredStrategy(2)

    def replica(x: Any) -> Any:
        return sd.compute_average_loss(x), sd.compute_average_loss(x[:4])

    all_rows, some = strategy.run(replica, args=(next(of_nine(strategy)),))
    expected = [HARDEST.mean(), np.r_[HARDEST[:4], HARDEST[5:9]].mean()]
    np.testing.assert_allclose([of_all(strategy, all_rows), of_all(strategy, some)], expected, rtol=1e-6)


def test_losses_of_several_lengths_of_which_some_are_parts_are_refused() -> None:
    strategy = sd.MirroredStrategy(2)

    def replica(x: Any) -> Any:
        return sd.compute_average_loss(x if x.shape[0] == 5 else x[:3])

    with pytest.raises(InvalidArgumentError, match=r"5 and 3 rows.* batch of 9 rows.*global_batch_size="):
        strategy.run(replica, args=(next(of_nine(strategy)),))


@pytest.mark.parametrize("how", ["outside", "in a step", "eagerly"])
@pytest.mark.parametrize("replicas, rows", [(2, 9), (4, 3)])
def test_losses_of_more_rows_than_the_batch_count_together(how: str, replicas: int, rows: int) -> None:
    """Each row twice, as with a copy of each that was augmented: of 5 and 4 rows, and of one each but for the last replica."""
    strategy = sd.MirroredStrategy(replicas)

    def doubled(x: Any) -> Any:
        return sd.compute_average_loss(jax.numpy.concatenate([x, 3.0 * x]))

    step = sd.function(lambda iterator: strategy.run(doubled, args=(next(iterator),)))
    step.run_eagerly = how == "eagerly"
    data = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(HARDEST[:rows]).batch(9)))
    found = strategy.run(doubled, args=(next(data),)) if how == "outside" else step(data)
    np.testing.assert_allclose(of_all(strategy, found), 2.0 * HARDEST[:rows].mean(), rtol=1e-6)
