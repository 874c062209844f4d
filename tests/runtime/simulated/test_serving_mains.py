"""Servers end with the last main that is at work."""

from __future__ import annotations

from simdist.runtime.simulated.serving_mains import ServingMains


class Mains:
    """Mains by name, and which servers were ended."""

    def __init__(self, *names: str) -> None:
        self.mains = ServingMains()
        self.ended: list[str] = []
        for name in names:
            self.mains.launched(name)

    def serve(self, *names: str) -> None:
        for name in names:
            self.mains.serves(name, lambda name=name: self.ended.append(name))


def test_servers_end_when_the_last_main_at_work_has_ended() -> None:
    each = Mains("chief", "worker", "ps")
    each.serve("ps")
    each.mains.ended("chief")
    assert (each.ended, each.mains.is_serving("ps")) == ([], True)
    each.mains.ended("worker")
    assert (each.ended, each.mains.is_serving("ps")) == (["ps"], False)


def test_servers_wait_while_nothing_has_been_at_work() -> None:
    each = Mains("ps:0", "ps:1")
    each.serve("ps:0", "ps:1")
    assert each.ended == []


def test_main_that_serves_after_the_work_has_ended_ends_at_once() -> None:
    each = Mains("chief", "ps:0", "ps:1")
    each.serve("ps:0")
    each.mains.ended("chief")
    assert each.ended == []  # ps:1 might still be at work
    each.serve("ps:1")
    assert each.ended == ["ps:0", "ps:1"]


def test_server_that_starts_again_is_at_work_until_it_serves() -> None:
    each = Mains("chief", "ps")
    each.serve("ps")
    each.mains.started_again("ps")
    each.mains.ended("chief")
    assert each.ended == []
    each.serve("ps")
    assert each.ended == ["ps"]


def test_servers_of_a_later_launch_wait_for_its_chief() -> None:
    each = Mains("first")
    each.mains.ended("first")
    each.mains.launched("ps")
    each.serve("ps")
    assert each.ended == []
    each.mains.launched("second")
    each.mains.ended("second")
    assert each.ended == ["ps"]


def test_server_that_has_ended_by_itself_is_not_ended_again() -> None:
    each = Mains("chief", "ps")
    each.serve("ps")
    each.mains.ended("ps")
    each.mains.ended("chief")
    each.mains.ended("chief")
    assert each.ended == []
