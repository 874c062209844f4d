"""Calls for rows: what a task keeps of them does not grow with its steps."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import simdist as sd
from simdist.runtime.simulated.calls import ServerCall

TABLES, SERVERS, STEPS = 12, 2, 150


def test_a_task_that_asks_for_rows_of_ever_other_tables_keeps_few_forms_of_its_calls() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": SERVERS}, numerics="off"), sd.FixedShardsPartitioner(SERVERS))
    with strategy.scope():
        tables = [sd.Variable(np.zeros((64, 2), np.float32)) for _ in range(TABLES)]

    @sd.function
    def step(ids: Any) -> Any:
        return sum(sd.embedding_lookup(table, ids[number]).sum() for number, table in enumerate(tables))

    gc.collect()
    before = {id(found) for found in gc.get_objects() if isinstance(found, ServerCall)}
    coordinator, rng = sd.ClusterCoordinator(strategy), np.random.default_rng(0)
    for _ in range(STEPS):
        coordinator.schedule(step, args=(rng.integers(0, 64, (TABLES, 1)).astype(np.int32),))
        coordinator.join()
    gc.collect()
    made = [found for found in gc.get_objects() if isinstance(found, ServerCall) and id(found) not in before]
    assert SERVERS <= len(made) < STEPS
