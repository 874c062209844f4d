"""Gradients that are said to be those of all replicas, and are not."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.arange(1.0, 5.0, dtype=np.float32)
Sum = Callable[[jax.Array, float], jax.Array]


def here() -> sd.ReplicaContext:
    context = sd.get_replica_context()
    assert context is not None
    return context


COMMON: dict[str, Sum] = {
    "all_reduce": lambda gradient, factor: here().all_reduce("sum", gradient) * factor,
    "all_gather": lambda gradient, factor: here().all_gather(gradient[None], axis=0).sum() * factor,
    "merge_call": lambda gradient, factor: here().merge_call(lambda s, g: s.reduce("sum", g, axis=None), args=(gradient,)) * factor,
}


def trained(total: Sum, how: str) -> float:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(0.0)
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))

    def replica(x: jax.Array, factor: float) -> None:
        _, (gradient,) = sd.value_and_grad(lambda: (v * x).sum(), [v])()
        optimizer.apply_gradients([(total(gradient, factor), v)], skip_gradients_aggregation=True)

    (part,) = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(X).batch(4))
    strategy.run(sd.function(replica) if how == "step" else replica, args=(part, np.float32(0.5)))
    return float(v.numpy())


@pytest.mark.parametrize("how", ["step", "plain function"])
def test_gradients_that_were_not_added_up_are_refused(how: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"different gradients of Variable .* skip_gradients_aggregation out, or add them up"):
        trained(lambda gradient, factor: gradient * factor, how)


@pytest.mark.parametrize("how", ["step", "plain function"])
@pytest.mark.parametrize("total", COMMON.values(), ids=COMMON.keys())
def test_gradients_that_every_replica_has_are_taken_as_they_are(total: Sum, how: str) -> None:
    assert trained(total, how) == -0.5 * X.sum()


def test_sums_that_replicas_have_kept_for_a_later_step_are_taken() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v, kept = sd.Variable(0.0), sd.Variable(0.0, trainable=False)
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
    (part,) = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(X).batch(4))
    strategy.run(sd.function(lambda x: kept.assign(kept + here().all_reduce("sum", x.sum()))), args=(part,))
    strategy.run(sd.function(lambda: optimizer.apply_gradients([(kept.value, v)], skip_gradients_aggregation=True)))
    assert float(v.numpy()) == -X.sum()


def test_a_constant_of_one_replica_is_none_of_another_that_has_other_operations() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v, a, b = sd.Variable(0.0), sd.Variable(0.0), sd.Variable(0.0)
        part = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))

    def replica(x: jax.Array) -> None:
        is_first = here().replica_id_in_sync_group == 0
        total = here().all_reduce("sum", v + 1.0 if is_first else v + 1.0 + a + b)
        optimizer.apply_gradients([(total * 0.5, v)], skip_gradients_aggregation=True)
        part.assign(x.sum() * total)  # in the kernel that computes the gradient, which so has something of each replica
        if is_first:
            a.assign(1.0)  # the constant has the number that the gradient has for the other replica

    (parts,) = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(X).batch(4))
    strategy.run(sd.function(replica), args=(parts,))
    assert (float(v.numpy()), float(part.numpy())) == (-1.0, 2 * X.sum())


def test_copies_that_differ_may_have_gradients_of_their_own() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2)
    with strategy.scope():
        v = sd.Variable(0.0)
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
    parts = strategy.distribute_values_from_function(lambda context: jnp.float32(context.replica_id_in_sync_group + 1.0))
    strategy.run(sd.function(lambda part: optimizer.apply_gradients([(part, v)], skip_gradients_aggregation=True)), args=(parts,))
    assert [float(copy) for copy in strategy.local_results(v)] == [-1.0, -2.0]
