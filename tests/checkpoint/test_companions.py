"""What a strategy keeps from step to step is in a checkpoint: residuals, where local steps began, and their outer optimizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

GRADIENTS = np.float32([[8.0, 4.0, 2.0, 1.0], [1.0, -2.0, 3.0, -0.5]])  # of two replicas


def compressed(compression: Any) -> dict[str, Any]:
    return {"communication_options": sd.CommunicationOptions(compression=compression)}


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "top-k": lambda: compressed(sd.collectives.TopK(fraction=0.25)),
    "one bit": lambda: compressed(sd.collectives.OneBit()),
    "power": lambda: compressed(sd.collectives.PowerSGD(rank=1)),
    "local steps": lambda: {"sync_every": 3},
    "an outer optimizer of Keras": lambda: {"sync_every": 3, "outer_optimizer": keras.optimizers.SGD(0.5, momentum=0.9)},
    "an outer optimizer of Optax": lambda: {"sync_every": 3, "outer_optimizer": optax.sgd(0.5, momentum=0.9)},
}


class Program:
    """A training of one variable by some workers; each replica has a gradient of its own, which differs from step to step."""

    def __init__(self, kind: str, workers: int = 2, momentum: float = 0.5) -> None:
        self.strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": workers}, seed=0), **KINDS[kind]())
        with self.strategy.scope():
            self.w = sd.Variable(np.zeros((2, 2), np.float32), name="w")
            self.count = sd.Variable(0.0, name="count")
            self.optimizer = sd.Optimizer(keras.optimizers.SGD(0.125, momentum=momentum))
        self.checkpoint = sd.Checkpoint(w=self.w, count=self.count, optimizer=self.optimizer)

        def replica() -> None:
            rank = sd.get_replica_context().replica_id_in_sync_group % 2
            gradient = jnp.asarray(GRADIENTS)[rank].reshape(2, 2)
            self.optimizer.apply_gradients([(gradient * (1.0 + self.count.value) + self.w.value, self.w)])

        def step() -> None:
            self.strategy.run(replica)
            self.count.assign_add(1.0)

        self.step = sd.function(step)

    def take(self, steps: int) -> list[list[float]]:
        """The weights after each of these steps."""
        seen: list[list[float]] = []
        for _ in range(steps):
            self.step()
            seen.append(self.w.numpy().ravel().tolist())
        return seen


@pytest.mark.sample
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saved_after", [2, 3])
def test_a_restore_in_the_same_program_or_in_another_goes_on_with_the_same_bits(kind: str, saved_after: int, tmp_path: Path) -> None:
    program = Program(kind)
    program.take(saved_after)
    path = program.checkpoint.save(tmp_path / "p")
    expected = program.take(5)
    program.checkpoint.restore(path).assert_consumed()
    assert program.take(5) == expected
    other = Program(kind)
    other.checkpoint.restore(path).assert_existing_objects_matched()
    assert other.take(5) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_restore_of_the_beginning_begins_again(kind: str, tmp_path: Path) -> None:
    program = Program(kind, momentum=0.0)  # of slots that are not in a checkpoint a restore says so
    path = program.checkpoint.save(tmp_path / "p")
    expected = program.take(5)
    for _ in range(2):
        program.checkpoint.restore(path).assert_existing_objects_matched()
    assert program.take(5) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_another_number_of_replicas_or_another_strategy_begins_with_the_weights(kind: str, tmp_path: Path) -> None:
    program = Program(kind)
    program.take(4)
    path = program.checkpoint.save(tmp_path / "p")
    for other in (Program(kind, workers=3), Program("local steps")):
        other.take(2)
        other.checkpoint.restore(path).expect_partial()
        np.testing.assert_array_equal(other.w.numpy(), program.w.numpy())
        assert np.isfinite(other.take(4)).all()


def test_what_is_saved_again_before_the_first_step_is_still_there(tmp_path: Path) -> None:
    program, other, third = Program("top-k"), Program("top-k"), Program("top-k")
    program.take(2)
    path = program.checkpoint.save(tmp_path / "p")
    other.checkpoint.restore(path).expect_partial()
    third.checkpoint.restore(other.checkpoint.save(tmp_path / "again")).expect_partial()
    assert third.take(3) == program.take(3)


class Refusing:
    """Refuses every state but its own."""

    def state_dict(self) -> int:
        return id(self)

    def load_state_dict(self, state: int) -> None:
        if state != id(self):
            raise InvalidArgumentError("not mine")


def test_a_restore_that_is_refused_leaves_what_was_kept(tmp_path: Path) -> None:
    kind = "an outer optimizer of Keras"
    fresh, program, twin = Program(kind), Program(kind), Program(kind)
    path = sd.Checkpoint(w=fresh.w, refusing=Refusing()).save(tmp_path / "p")
    assert program.take(4) == twin.take(4)
    with pytest.raises(InvalidArgumentError, match="not mine"):
        sd.Checkpoint(w=program.w, refusing=Refusing()).restore(path)
    assert program.take(4) == twin.take(4)
