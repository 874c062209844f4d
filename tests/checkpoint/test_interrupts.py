"""Ctrl-C while files are written or read: Orbax ends first, and nothing of it is left."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.checkpoint import files


def interrupted(work: Callable[..., Any], ended: list[str], what: str) -> Callable[..., Any]:
    """A piece of work, with Ctrl-C at its begin."""

    def call(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        found = work(*arguments)
        ended.append(what)
        return found

    return call


def test_ctrl_c_waits_for_the_threads_of_orbax_and_leaves_nothing_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v = sd.Variable(np.array([1.0], np.float32))
    checkpoint: Any = sd.Checkpoint(v=v)
    checkpoint.save(tmp_path / "ckpt")
    v.assign([2.0])
    ended: list[str] = []
    with monkeypatch.context() as patched:
        orbax = files._orbax()
        slow = SimpleNamespace(save=interrupted(orbax.save, ended, "save"), restore=interrupted(orbax.restore, ended, "restore"))
        patched.setattr(files, "_orbax", lambda: slow)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(tmp_path / "ckpt")
        with pytest.raises(KeyboardInterrupt):
            checkpoint.restore(tmp_path / "ckpt-1")
    assert ended == ["save", "restore"]
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-1"]
    assert v.numpy().tolist() == [2.0]
    checkpoint.restore(tmp_path / "ckpt-1")
    assert v.numpy().tolist() == [1.0]
