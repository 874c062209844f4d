"""The outcome of a step: nothing is read before it is asked for."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import simdist as sd
from simdist.program.function import StepFunction


@pytest.mark.parametrize(("workers", "expected"), [(1, {"rank": 0.0}), (3, {"rank": [0.0, 1.0, 2.0]})])
def test_value_has_the_structure_of_the_result_and_a_value_for_each_replica(workers: int, expected: object) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": workers}))

    def ranks() -> object:
        return strategy.run(lambda: {"rank": jnp.float32(sd.get_replica_context().replica_id_in_sync_group)})

    found = strategy.step(StepFunction(ranks, name="ranks"), (), {}).value()["rank"]
    values = strategy.local_results(found)
    assert {"rank": list(map(float, values)) if workers > 1 else float(values[0])} == expected


def test_read_of_a_value_is_noted_and_a_step_alone_is_not() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    outcome = strategy.step(StepFunction(lambda: jnp.float32(1.0), name="one"), (), {})
    trace, read = strategy.engine.trace, []
    trace.observed = lambda: read.append(True)  # type: ignore[method-assign]
    assert not read
    outcome.value()
    assert read
