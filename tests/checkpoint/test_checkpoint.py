"""What `Checkpoint` takes, and where it may be called."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from tests.checkpoint.kept import Kept

variable: Any = sd.Variable


def test_options_are_checked() -> None:
    assert sd.CheckpointOptions() == sd.CheckpointOptions(enable_async=False, writers="chief")
    with pytest.raises(InvalidArgumentError, match="Did you mean 'owners'"):
        sd.CheckpointOptions(writers="owner")
    with pytest.raises(TypeError, match="enable_async"):
        sd.CheckpointOptions(enable_async=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["save", "restore"])
def test_a_step_can_neither_save_nor_restore(call: str, tmp_path: Path) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = variable(1.0)
    checkpoint = sd.Checkpoint(v=v)
    argument = checkpoint.save(tmp_path / "ckpt") if call == "restore" else tmp_path / "ckpt"
    found = list(tmp_path.iterdir())
    for step in (
        sd.function(lambda: getattr(checkpoint, call)(argument)),
        lambda: strategy.run(lambda: getattr(checkpoint, call)(argument)),
    ):
        with pytest.raises(FailedPreconditionError, match="inside of a step"):
            step()
    assert list(tmp_path.iterdir()) == found and checkpoint.save_counter == len(found)


def test_paths_and_options_are_checked(tmp_path: Path) -> None:
    checkpoint: Any = sd.Checkpoint(kept=Kept(1))
    for call in (checkpoint.save, checkpoint.write, checkpoint.restore):
        for path in (3, b"ckpt"):
            with pytest.raises(TypeError):
                call(path)
        with pytest.raises(InvalidArgumentError, match="is empty"):
            call("")
    for call in (checkpoint.save, checkpoint.restore, sd.latest_checkpoint, partial(sd.CheckpointManager, checkpoint, max_to_keep=1)):
        for address in ("gs://bucket/ckpt", Path("gs://bucket/ckpt"), "file:///ckpt"):
            with pytest.raises(InvalidArgumentError, match="is an address, and files are written and read on this machine alone"):
                call(address)
    with pytest.raises(TypeError, match=r"options is a dict; expected an sd\.CheckpointOptions"):
        checkpoint.save(tmp_path / "ckpt", {"enable_async": True})
    assert checkpoint.save_counter == 0 and not list(tmp_path.iterdir())
