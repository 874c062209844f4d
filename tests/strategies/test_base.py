"""What every strategy is."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.strategies.base import TrainingStrategy


@pytest.mark.parametrize(
    "make",
    [
        sd.OneDeviceStrategy,
        sd.MirroredStrategy,
        sd.CentralStorageStrategy,
        sd.TPUStrategy,
        sd.MultiWorkerMirroredStrategy,
        lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})),
    ],
)
def test_every_strategy_has_what_a_strategy_is(make: type) -> None:
    assert isinstance(make(), TrainingStrategy)
