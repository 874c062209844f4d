"""A fault that is injected while bytes of a collective are on their way does what the same fault does that was planned for that second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

EVERYBODY = ["worker:0", "worker:1", "worker:2"]
MIDDLE_S = 0.0024  # of the all-reduce, which takes from 0.0002 to 0.0049 s
FAULTS: dict[str, dict[str, Any]] = {
    "slow_link": {"source": EVERYBODY, "target": EVERYBODY, "bandwidth_factor": 1000.0},
    "delay": {"source": EVERYBODY, "target": EVERYBODY, "seconds": 0.5},
    "partition": {"a": "worker:0", "b": EVERYBODY[1:], "until": 1.0},
    "drop": {"source": EVERYBODY, "target": EVERYBODY},
    "pause": {"task": "worker:1", "until": 1.0},
    "crash": {"task": "worker:2"},
}


def all_reduce(cluster: sd.Cluster, algorithm: str) -> None:
    options = sd.CommunicationOptions(algorithm=algorithm)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=options)
    with strategy.scope():
        variable = sd.Variable(np.zeros((1000, 1000), np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
    sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(variable.value, variable)])))()


def planned(kind: str, algorithm: str) -> tuple[str, float]:
    """How the run ends, and when."""
    cluster = sd.Cluster({"worker": 3}, numerics="off")
    getattr(cluster.faults, kind)(**FAULTS[kind], at=MIDDLE_S)
    try:
        all_reduce(cluster, algorithm)
    except sd.errors.SimdistError as error:
        return type(error).__name__, cluster.now
    return "", cluster.now


def injected(kind: str, algorithm: str) -> tuple[str, float]:
    session = sd.Session(lambda cluster: all_reduce(cluster, algorithm), sd.Cluster({"worker": 3}, numerics="off"))
    session.advance(until=MIDDLE_S)
    session.inject({"kind": kind, **FAULTS[kind]})
    try:
        session.advance()
    except sd.errors.SimdistError as error:
        return type(error).__name__, session.now
    finally:
        session.close()
    return "", session.now


@pytest.mark.parametrize("algorithm", ["ring", "recursive doubling"])
@pytest.mark.parametrize("kind", FAULTS)
def test_an_injected_fault_is_the_planned_one(kind: str, algorithm: str) -> None:
    error, end_s = injected(kind, algorithm)
    assert (error, pytest.approx(end_s)) == planned(kind, algorithm)


def test_these_faults_hit_the_collective() -> None:
    calm = sd.Cluster({"worker": 3}, numerics="off")
    all_reduce(calm, "ring")
    assert calm.now < 0.006
    assert all(error or end_s > 0.1 for error, end_s in (planned(kind, "ring") for kind in FAULTS))
