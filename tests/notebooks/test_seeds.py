"""The seeds of random moments: any whole number from 0; everything else is refused with a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from classroom.seeds import checked_seed
from classroom.spot import make_cluster, market
from classroom.young_daly import failing_cluster, moments_of_failure

from simdist.errors import InvalidArgumentError


def test_whole_numbers_of_numpy_give_the_same_moments() -> None:
    assert checked_seed(np.int64(3)) == 3
    assert moments_of_failure(np.int64(3), 5000.0) == moments_of_failure(3, 5000.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True, [1]])
def test_everything_else_is_refused(seed: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is no seed: give a whole number from 0"):
        failing_cluster(seed)
    with pytest.raises(InvalidArgumentError, match="is no seed: give a whole number from 0"):
        market(make_cluster(), 300.0, seed)
