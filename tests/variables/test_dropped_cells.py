"""What a variable held where nobody uses it any more is free, also when a step has changed it together with others."""

from __future__ import annotations

import numpy as np

import simdist as sd
from simdist import keras


def test_slots_that_a_step_has_set_together_are_stored_once_when_they_are_trained() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(100), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        model.compile(optimizer, loss="mse")
        optimizer.build(model.trainable_variables)
    momenta = optimizer.variables[2:]

    @sd.function
    def clear() -> None:
        for momentum in momenta:
            momentum.assign(momentum * 0.0)

    def held() -> list[int]:
        return [strategy.cluster.engine.memory(device).in_use_bytes for device in strategy.replica_devices()]

    before = held()
    strategy.run(clear)
    rows = np.ones((8, 4), np.float32)
    model.fit(rows, rows[:, :1], batch_size=4, verbose=0)
    # The number of trained examples is new; the momenta are not.
    assert [now - then < sum(momentum.numpy().nbytes for momentum in momenta) for now, then in zip(held(), before, strict=True)] == [
        True
    ] * 2
    names = [record.variable for record in strategy.placements() if record.kind == "slot" and record.size_bytes > 4]
    assert len(names) == len(set(names)) * 2


def test_variables_that_move_to_another_strategy_leave_no_memory_behind() -> None:
    variables = [sd.Variable(np.ones(1000, np.float32)) for _ in range(2)]
    cell = variables[0].placement.cells[0]
    engine = variables[0].placement.store.engine
    before = engine.memory(cell.task).in_use_bytes

    @sd.function
    def step() -> None:
        for variable in variables:
            variable.assign(variable.value + 1.0)

    step()
    assert cell.group.cells == [variable.placement.cells[0] for variable in variables]
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    coordinator.schedule(step)
    coordinator.join()
    assert engine.memory(cell.task).in_use_bytes == before - 8000
    assert [float(variable.numpy().sum()) for variable in variables] == [3000.0, 3000.0]
