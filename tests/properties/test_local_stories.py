"""Any story of replicas that take steps of their own has the numbers of replicas that train alone and average, in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from tests.properties.local_stories import Script, Seen, played, played_by_numpy

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own


def assert_equal(found: Seen, expected: Seen) -> None:
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, np.reshape(other, np.shape(own)), rtol=1e-3, atol=1e-4 * np.abs(other).max(initial=1.0))


@pytest.mark.parametrize("seed", sampled(list(range(60)), {28}))
def test_any_story_of_one_program_has_the_numbers_of_plain_replicas(seed: int, tmp_path: Path) -> None:
    script = Script(seed)
    assert_equal(played(script, tmp_path / "saved", sd.Cluster({"worker": script.workers})), played_by_numpy(script, None))


@pytest.mark.parametrize("seed", sampled(list(range(60)), {29}))
def test_any_story_of_launched_mains_has_the_numbers_of_plain_replicas(seed: int, tmp_path: Path) -> None:
    script = Script(seed)
    with sd.Cluster({"worker": script.workers}) as cluster:
        run = cluster.launch(lambda: played(script, tmp_path / "saved", None))
        run.join()
    for worker in range(script.workers):
        assert_equal(run.results[f"worker:{worker}"], played_by_numpy(script, worker))
