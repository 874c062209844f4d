"""Names of older versions of TensorFlow: absent for Python, and the error says what to write."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist import keras
from simdist.strategies.absent_names import OF_EXTENDED, OF_STRATEGIES
from simdist.variables.wrapped_attributes import INSTEAD


def test_names_that_are_not_here_say_what_to_write() -> None:
    strategies = [sd.MirroredStrategy(2), sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))]
    with strategies[0].scope():
        optimizer = sd.Optimizer(keras.optimizers.Adam())
    owners: list[tuple[object, list[str]]] = [(strategy, list(OF_STRATEGIES)) for strategy in strategies]
    owners += [(strategies[0].extended, list(OF_EXTENDED)), (optimizer, list(INSTEAD))]
    for owner, names in owners:
        assert not hasattr(owner, "nothing_of_the_kind")
        for name in names:
            assert name not in dir(owner) and not hasattr(owner, name)
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'. Write instead: "):
                getattr(owner, name)


def test_strategies_of_one_machine_have_no_resolver() -> None:
    for strategy in (sd.MirroredStrategy(2), sd.OneDeviceStrategy(), sd.CentralStorageStrategy(2), sd.get_strategy()):
        assert strategy.cluster_resolver is None


def test_a_model_knows_its_strategy() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    assert model.distribute_strategy is strategy
    assert keras.Sequential([keras.layers.Dense(1)]).distribute_strategy is sd.get_strategy()
