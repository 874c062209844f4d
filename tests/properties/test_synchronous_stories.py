"""Any story of a synchronous strategy has the bits of calls that are made at once, and the numbers of plain replicas, whatever the plan.

Steps of many kinds come in turns: those that train all variables, one of them or rows of a table, count, draw random numbers, gather, give
each replica a value of its own, and those that fail. Results of some are arguments of others, and something is read in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from failed_scans import scans_from_few_entries
from sampling import sampled
from tests.properties.plain_stories import PlainStory
from tests.properties.synchronous_stories import Story

TABLE_BYTES = 1_024


@pytest.fixture(autouse=True)
def scans_from_few_entries_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with scans_from_few_entries(monkeypatch, TABLE_BYTES):
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numerics", "seed"),
    sampled([(numerics, seed) for numerics in ("deferred", "replay", "loop") for seed in range(100)], {("deferred", 32)}),
)
def test_any_story_has_the_bits_and_the_times_of_calls_at_once(numerics: str, seed: int) -> None:
    story, judge = Story(numerics, seed), Story("eager", seed)
    for found, expected in zip(story.told(), judge.told(), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    assert story.strategy.cluster.trace.digest() == judge.strategy.cluster.trace.digest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numerics", "seed"),
    sampled([(numerics, seed) for numerics in ("deferred", "replay", "loop", "eager") for seed in range(100)], {("deferred", 33)}),
)
def test_any_story_has_the_numbers_of_plain_replicas(numerics: str, seed: int) -> None:
    story, plain = Story(numerics, seed, without={"draw"}), PlainStory(seed)
    for found, expected in zip(story.told(), plain.told(), strict=True):
        largest = np.nanmax(np.abs(expected), initial=1.0)  # of a story that diverges, single numbers are small by cancellation
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * largest)
