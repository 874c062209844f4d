"""Global batch sizes that a step gives itself: replicas that give different ones are refused, also those of other mains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.program.global_sizes import GivenSize, differing_sizes

Sizes = Callable[[int, int], Any]  # of a rank and its rows
ROWS = 12


def trained(strategy: Any, size_of: Sizes, batch: int) -> list[float]:
    """A variable after the batches of an epoch, whose loss is divided by these sizes."""
    with strategy.scope():
        v = sd.Variable(np.zeros(2, np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(x: Any) -> Any:
            rank = sd.get_replica_context().replica_id_in_sync_group

            def loss() -> Any:
                return sd.compute_average_loss(((x - v.value) ** 2).sum(-1), global_batch_size=size_of(rank, len(x)))

            value, gradients = sd.value_and_grad(loss, [v])()
            optimizer.apply_gradients(zip(gradients, [v], strict=True))
            return value

        return strategy.reduce("sum", strategy.run(replica, args=(next(iterator),)), axis=None)

    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(np.ones((ROWS, 2), np.float32)).batch(batch)))
    for _ in range(-(-ROWS // batch)):
        step(iterator)
    return v.numpy().tolist()


def in_mains(size_of: Sizes, batch: int) -> list[float]:
    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(lambda: trained(sd.MultiWorkerMirroredStrategy(), size_of, batch))
        run.join()
        assert run.results["worker:0"] == run.results["worker:1"]
        return run.results["worker:0"]


def in_one_program(size_of: Sizes, batch: int) -> list[float]:
    return trained(sd.MirroredStrategy(2), size_of, batch)


PROGRAMS = [in_mains, in_one_program]


@pytest.mark.parametrize("run", PROGRAMS)
def test_different_sizes_are_refused(run: Callable[[Sizes, int], list[float]]) -> None:
    expected = r"gave compute_average_loss global_batch_size=6, but .* 12, before collective \d of their group. .*the same one everywhere"
    with pytest.raises(InvalidArgumentError, match=expected):
        run(lambda rank, rows: 6 * (rank + 1), 6)


@pytest.mark.parametrize("run", PROGRAMS)
@pytest.mark.parametrize(
    "size_of", [lambda rank, rows: 5, lambda rank, rows: np.int64(5) if rank else 5, lambda rank, rows: 5 if rows else 77]
)
@pytest.mark.sample
def test_equal_sizes_are_the_loss_of_one_device(run: Callable[[Sizes, int], list[float]], size_of: Sizes) -> None:
    alone = trained(sd.OneDeviceStrategy(), lambda rank, rows: 5, 5)  # 5, 5 and 2 rows
    np.testing.assert_allclose(run(size_of, 5), alone, rtol=1e-6)


@pytest.mark.parametrize("run", PROGRAMS)
def test_a_replica_may_take_the_others_to_have_as_many_rows(run: Callable[[Sizes, int], list[float]]) -> None:
    """As TensorFlow does where no size is given; so 5 rows are 6 and 4."""
    assert run(lambda rank, rows: 2 * rows, 5) == pytest.approx([0.1 * 2 + 0.8 * 0.1 * 2 + 0.64 * 0.1 * 2] * 2)


@pytest.mark.parametrize("run", PROGRAMS)
def test_a_replica_may_take_the_mean_over_its_own_rows(run: Callable[[Sizes, int], list[float]]) -> None:
    """Also where the last batch does not divide evenly: here into 3 and 2 rows, and 1 and 1."""
    assert run(lambda rank, rows: rows, 5) == pytest.approx([1 - 0.6**3] * 2)


def test_sizes_are_compared_in_their_order() -> None:
    one, other = [GivenSize(4, 8), GivenSize(4, 9)], [GivenSize(4, 8), GivenSize(4, 7)]
    assert differing_sizes(one, other, 2) == (9, 7)
    assert differing_sizes(one, one[:1], 2) is None
    assert differing_sizes([GivenSize(0, 8)], [GivenSize(4, 9)], 2) is None
