"""Event files: numbers alone, by the chief alone, and nothing where the package is missing."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from simdist.estimator import summaries
from simdist.estimator.summaries import Summaries


def test_only_single_numbers_are_written_and_only_by_the_chief(tmp_path: Path) -> None:
    Summaries(str(tmp_path), writes=False).write(1, 0.5, {"loss": 1.0})
    assert list(tmp_path.iterdir()) == []
    Summaries(str(tmp_path)).write(1, 0.5, {"words": np.array("a"), "row": np.ones(2)})
    assert list(tmp_path.iterdir()) == []
    Summaries(str(tmp_path)).write(1, 0.5, {"loss": 1.0, "steps": np.int32(3), "row": np.ones(2)})
    (file,) = tmp_path.iterdir()
    assert b"steps" in file.read_bytes() and b"row" not in file.read_bytes()


def test_a_missing_package_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    def missing(_: Path) -> None:
        raise ModuleNotFoundError("An event file for TensorBoard needs the package tensorboard: pip install 'simdist[tensorboard]'")

    monkeypatch.setattr(summaries, "EventFile", missing)
    monkeypatch.setattr(summaries, "_has_warned", [])
    with caplog.at_level(logging.WARNING, "simdist"):
        for _ in range(2):
            Summaries(str(tmp_path)).write(1, 0.5, {"loss": 1.0})
    assert caplog.text.count("pip install 'simdist[tensorboard]'") == 1 and list(tmp_path.iterdir()) == []
