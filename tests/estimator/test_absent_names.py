"""Names of TensorFlow that are not here: absent for Python, and the error says what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

import simdist as sd
from estimators import regressor
from simdist.estimator.absent_names import OF_ESTIMATOR, OF_ESTIMATORS
from simdist.feature_column.absent_names import OF_FEATURE_COLUMN


def test_names_that_are_not_here_say_what_to_write(tmp_path: Path) -> None:
    owners = [(sd.estimator, OF_ESTIMATOR), (sd.feature_column, OF_FEATURE_COLUMN), (regressor(tmp_path), OF_ESTIMATORS)]
    for owner, names in owners:
        assert not hasattr(owner, "nothing_of_the_kind") and names
        for name in names:
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'. Write instead: "):
                getattr(owner, name)
