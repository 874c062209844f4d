"""Where an Estimator saves: the given directory, that of its options, or a new one where it is alone."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.estimator.model_directory import with_directory


def test_a_directory_may_be_given_in_either_place(tmp_path: Path) -> None:
    of_options = sd.estimator.RunConfig(str(tmp_path))
    assert with_directory(sd.estimator.RunConfig(), tmp_path).model_dir == str(tmp_path)
    assert with_directory(of_options, None).model_dir == with_directory(of_options, tmp_path).model_dir == str(tmp_path)
    with pytest.raises(InvalidArgumentError, match="model_dir='other', but the RunConfig has model_dir="):
        with_directory(of_options, "other")


def test_alone_and_without_one_it_is_a_new_one_and_the_log_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with caplog.at_level(logging.WARNING, "simdist"):
        made = with_directory(sd.estimator.RunConfig(), None).model_dir
    assert isinstance(made, str) and Path(made).parent == tmp_path and made in caplog.text
