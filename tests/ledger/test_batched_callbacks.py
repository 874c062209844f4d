"""Batches and Python of the user: a kernel that calls back is called for each entry, and an error says of which one it is."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist.program.arrays import HostArray

NUMERICS = ["vmap", "shard_map"]


def total(row: HostArray) -> HostArray:
    """A function that knows of no batches."""
    assert row.shape == (3,)
    if row[0] == 5:
        raise ValueError("five")
    return np.asarray(row.sum(), np.float32)


def closures(numerics: str, rows: Any, **method: Any) -> tuple[sd.Variable, list[Any]]:
    """Closures of four workers, each of which adds the total of a row to a variable; and what they return."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 4, "ps": 1}, numerics=numerics))
    with strategy.scope():
        variable = sd.Variable(np.float32(0.0))

    @sd.function
    def step(row: Any) -> Any:
        def replica(row: Any) -> Any:
            found = jax.pure_callback(total, jax.ShapeDtypeStruct((), "float32"), row, **method)
            variable.assign_add(found)
            return found

        return strategy.run(replica, args=(row,))

    coordinator = sd.ClusterCoordinator(strategy)
    results = [coordinator.schedule(step, args=(row,)) for row in rows]
    coordinator.join()
    return variable, results


@pytest.mark.parametrize("method", [{}, {"vmap_method": "sequential"}, {"vmap_method": "expand_dims"}], ids=str)
@pytest.mark.parametrize("numerics", NUMERICS)
def test_a_callback_gets_what_it_gets_without_batches(numerics: str, method: dict[str, Any]) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(8, 3) * 2
    variable, results = closures(numerics, rows, **method)
    assert float(variable.numpy()) == rows.sum()
    assert [float(result.fetch()) for result in results] == rows.sum(1).tolist()


@pytest.mark.parametrize("numerics", NUMERICS)
def test_a_callback_that_raises_names_its_step(numerics: str) -> None:
    _, results = closures(numerics, np.arange(9, dtype=np.float32).repeat(3).reshape(9, 3))
    with pytest.raises(Exception, match="five") as error:
        results[5].fetch()
    assert [note for note in error.value.__notes__ if "while computing" in note and "worker:1" in note]
    assert [float(result.fetch()) for number, result in enumerate(results) if number != 5] == [0, 3, 6, 9, 12, 18, 21, 24]
