"""Checkpoints of an Estimator: ``model.ckpt-N`` in its directory, where N is the number of trained steps.

They are `sd.Checkpoint`s of the count of steps, the variables of the model by name, and what the optimizer keeps.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from simdist.checkpoint import Checkpoint, CheckpointManager, latest_checkpoint
from simdist.checkpoint.files import read
from simdist.checkpoint.objects import Objects
from simdist.errors import InvalidArgumentError, NotFoundError, did_you_mean
from simdist.estimator.run_config import RunConfig
from simdist.program.arrays import HostArray
from simdist.variables.handles import own_variable
from simdist.variables.keras_objects import core_of, is_keras_optimizer, learning_rate_of
from simdist.variables.optimizer import Optimizer
from simdist.variables.variable import Variable

if TYPE_CHECKING:  # it loads Keras
    from simdist.estimator.built_model import BuiltModel

__all__ = ["SavedSteps", "latest_step", "restored_step", "saved_values", "value_of"]

NAME = "model.ckpt"
VARIABLES = "variables/"


class SavedSteps:
    """Saves the steps of a training.

    Args:
        model: what is trained.
        directory: of the checkpoints.
        config: how many of them stay.
    """

    def __init__(self, model: BuiltModel, directory: str, config: RunConfig) -> None:
        self._manager = CheckpointManager(
            _checkpoint(model),
            directory,
            max_to_keep=config.keep_checkpoint_max or None,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
            checkpoint_name=NAME,
        )

    def save(self, step: int) -> None:
        """Save the state after so many steps; one that is there already stays."""
        if self._manager.latest_checkpoint is None or step_of(self._manager.latest_checkpoint) != step:
            self._manager.save(step)


def latest_step(directory: str) -> int:
    """How many steps the newest checkpoint of a directory has seen; 0 where there is none."""
    path = latest_checkpoint(directory)
    return 0 if path is None else step_of(path)


def step_of(path: str) -> int:
    """How many steps a checkpoint has seen.

    Example:
        >>> step_of("model/model.ckpt-20")
        20
    """
    return int(Path(path).name.rpartition("-")[2])


def restored_step(model: BuiltModel, path: str | None) -> int:
    """Give a model the values of a checkpoint, if there is one; returns how many steps it has seen.

    The learning rate is the one that the optimizer was made with, as with the optimizers of TensorFlow's Estimator: it is an argument, and
    nothing that was learned. Where a schedule said it, the checkpoint has none.

    Raises:
        NotFoundError: there is no such checkpoint.
        InvalidArgumentError: it is of another model.
        DataLossError: it is damaged.
    """
    rates = [] if model.optimizer is None else [(rate, rate.numpy()) for rate in _learning_rates(model.optimizer)]
    checkpoint = _checkpoint(model)
    status = checkpoint.restore(path).expect_partial()
    found = Objects.of(checkpoint.objects)
    arguments = {place for rate, _ in rates for place in found.names_of(rate)}
    missing = [found.names.get(place, place) for place in status.missing if place not in arguments]
    if missing:
        raise InvalidArgumentError(
            f"The checkpoint {path!r} has no value for {', '.join(missing)}. It is of another model; give another model_dir, or the "
            "model_fn that it was saved with."
        )
    for rate, given in rates:
        if rate.numpy() != given:
            rate.assign(given)
    return int(model.global_step.numpy())


def saved_values(path: str | None) -> dict[str, HostArray]:
    """The values in a checkpoint, by the names of the variables.

    Raises:
        InvalidArgumentError: there is none.
    """
    if path is None:
        raise InvalidArgumentError("The Estimator has no checkpoint yet. Call train first, or give the model_dir of a trained one.")
    manifest, arrays = read(Path(path))
    found: dict[str, HostArray] = {}
    for place, entry in sorted(manifest.arrays.items()):
        if not place.startswith("simdist/"):
            name = _variable_name(place) if place.startswith(VARIABLES) else entry.name
            found[place if not name or name in found else name] = arrays[place]
    return dict(sorted(found.items()))


def value_of(path: str | None, name: str) -> HostArray:
    """The value of one variable in a checkpoint.

    Raises:
        NotFoundError: it has no such variable.
    """
    values = saved_values(path)
    if name not in values:
        raise NotFoundError(f"The checkpoint {path!r} has no variable {name!r}. {did_you_mean(name, values)}")
    return values[name]


def _checkpoint(model: BuiltModel) -> Checkpoint:
    objects: dict[str, Any] = {"global_step": model.global_step, "variables": model.saved_variables}
    if model.optimizer is not None:
        objects["optimizer"] = model.optimizer
    return Checkpoint(**objects)


def _learning_rates(optimizer: Optimizer) -> list[Variable]:
    """The learning rate of an optimizer of Keras; none where a schedule says it, or Optax."""
    wrapped = optimizer.wrapped
    rate = own_variable(learning_rate_of(core_of(wrapped))) if is_keras_optimizer(wrapped) else None
    return [] if rate is None else [rate]


def _variable_name(path: str) -> str:
    """What the model calls what lies at a path of the checkpoint."""
    return unquote(path.removeprefix(VARIABLES))
