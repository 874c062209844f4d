"""The garbage collector is spared by default, by a choice, and not at all; and all of it can be undone."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
from simdist.runtime import collector

PYTHONS = (700, 10, 10)
RAISED = (collector.YOUNG_OBJECTS, 10, 10)


class FakeCollector:
    """What the collector of a new process would say, so that the one of the tests stays as it is."""

    def __init__(self) -> None:
        self.threshold: tuple[int, ...] = PYTHONS
        self.frozen = 0

    def collect(self) -> None: ...

    def freeze(self) -> None:
        self.frozen += 1_000

    def unfreeze(self) -> None:
        self.frozen = 0

    def get_freeze_count(self) -> int:
        return self.frozen

    def get_threshold(self) -> tuple[int, ...]:
        return self.threshold

    def set_threshold(self, *threshold: int) -> None:
        self.threshold = threshold

    @property
    def state(self) -> tuple[int, tuple[int, ...]]:
        return self.frozen, self.threshold


@pytest.fixture
def gc(monkeypatch: pytest.MonkeyPatch) -> FakeCollector:
    fake = FakeCollector()
    monkeypatch.setattr(collector, "gc", fake)
    monkeypatch.setattr(collector, "_choice", collector._Choice())
    return fake


def test_the_first_cluster_spares_the_collector_and_the_second_freezes_nothing(gc: FakeCollector) -> None:
    sd.Cluster({"worker": 1})
    assert gc.state == (1_000, RAISED)
    sd.Cluster({"worker": 1})
    assert gc.state == (1_000, RAISED)


def test_a_cluster_changes_nothing_where_that_was_chosen(gc: FakeCollector) -> None:
    sd.spare_the_collector(False)
    sd.Cluster({"worker": 1})
    assert gc.state == (0, PYTHONS)


def test_what_a_cluster_has_done_can_be_undone_and_done_again(gc: FakeCollector) -> None:
    sd.Cluster({"worker": 1})
    sd.spare_the_collector(False)
    sd.Cluster({"worker": 1})
    assert gc.state == (0, PYTHONS)
    sd.spare_the_collector()
    assert gc.state == (1_000, RAISED)


def test_what_the_user_has_frozen_stays_frozen(gc: FakeCollector) -> None:
    gc.freeze()
    sd.spare_the_collector()
    sd.spare_the_collector(False)
    assert gc.state == (1_000, PYTHONS)


@pytest.mark.parametrize("own", [(0, 10, 10), (100_000, 5, 5)])
def test_a_threshold_of_the_users_own_is_not_lowered_and_one_of_zero_stays(gc: FakeCollector, own: tuple[int, ...]) -> None:
    gc.set_threshold(*own)
    sd.spare_the_collector()
    assert gc.threshold == own


def test_a_threshold_that_was_set_since_is_kept_when_it_is_undone(gc: FakeCollector) -> None:
    sd.spare_the_collector()
    gc.set_threshold(1_234, 5, 6)
    sd.spare_the_collector(False)
    assert gc.state == (0, (1_234, 5, 6))


def test_a_choice_that_is_no_choice_is_refused(gc: FakeCollector) -> None:
    word: Any = "off"
    with pytest.raises(TypeError, match="on is 'off'"):
        sd.spare_the_collector(word)
