"""Arrays of numpy in the byte order of another machine, as files have them: JAX takes none, and simdist takes them as their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd

GIVEN = np.arange(3, dtype=">f4")
IDS = np.array([2, 0], ">i4")
STRATEGY = sd.MirroredStrategy(devices=2)
with STRATEGY.scope():
    TABLE = sd.Variable([10.0, 20.0, 30.0], name="table")


def context() -> Any:
    return sd.get_replica_context()


def updated(change: Callable[[sd.Variable], object]) -> Any:
    with STRATEGY.scope():
        variable = sd.Variable([1.0, 1.0, 1.0], name="changed")
    change(variable)
    return variable.numpy()


def descended(variable: sd.Variable) -> None:
    with STRATEGY.scope():
        optimizer = sd.Optimizer(optax.sgd(1.0))
    STRATEGY.run(lambda: optimizer.apply_gradients([(GIVEN, variable)]))


CALLS: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "a result of a step": (lambda: STRATEGY.run(lambda: GIVEN).values[1], [0, 1, 2]),
    "an argument of a step": (lambda: STRATEGY.run(lambda x: x * 2, args=(GIVEN,)).values[1], [0, 2, 4]),
    "reduce": (lambda: STRATEGY.reduce("MEAN", GIVEN, axis=None), [0, 1, 2]),
    "gather": (lambda: sd.OneDeviceStrategy().gather(GIVEN, axis=0), [0, 1, 2]),
    "all_reduce": (lambda: STRATEGY.run(lambda: context().all_reduce("SUM", GIVEN)).values[0], [0, 2, 4]),
    "all_gather": (lambda: STRATEGY.run(lambda: context().all_gather(IDS, axis=0)).values[0], [2, 0, 2, 0]),
    "merge_call": (lambda: STRATEGY.run(lambda: context().merge_call(lambda _, x: x, (GIVEN,))).values[0], [0, 1, 2]),
    "rows of a table": (lambda: STRATEGY.run(lambda: sd.embedding_lookup(TABLE, IDS)).values[0], [30, 10]),
    "rows of an argument": (lambda: STRATEGY.run(lambda ids: sd.embedding_lookup(TABLE, ids), args=(IDS,)).values[0], [30, 10]),
    "weights": (lambda: STRATEGY.run(lambda: sd.embedding_lookup_sparse(TABLE, IDS[None], IDS[None], "sum")).values[0], [60]),
    "scatter_add": (lambda: updated(lambda v: v.scatter_add(IDS, np.array([1, 2], ">f4"))), [3, 1, 2]),
    "assign": (lambda: updated(lambda v: STRATEGY.run(lambda: v.assign(GIVEN))), [0, 1, 2]),
    "gradients": (lambda: updated(descended), [1, -1, -3]),
    "losses": (lambda: STRATEGY.run(lambda: [sd.compute_average_loss(GIVEN, global_batch_size=6)])[0].values[0], 0.5),
    "check_numerics": (lambda: STRATEGY.run(lambda: sd.check_numerics(GIVEN, "x")).values[0], [0, 1, 2]),
}


@pytest.mark.parametrize("where", CALLS)
def test_numbers_of_another_byte_order_count_as_they_are(where: str) -> None:
    call, expected = CALLS[where]
    assert np.asarray(call()).tolist() == expected
