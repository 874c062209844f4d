"""Scans for which nobody waits: the schedule goes on meanwhile, and whatever becomes of them, the numbers are the same."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable

import numpy as np
import pytest

from simdist.ledger import computing, pending, plans, registers, replay
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle

AVAL = Aval((3,), "float32")
STEP = kernel_of("flight", lambda v, w, x: (v * 1.01 + w * x,), [AVAL, AVAL, AVAL])


class Story:
    """Two variables that change each other, step after step, and others that come in between from outside."""

    def __init__(self, numerics: str) -> None:
        self.ledger = Ledger(numerics)
        self.site = self.ledger.site(STEP, [(AVAL,), (AVAL,)], [(AVAL,)])
        self.v, self.w = (Bundle.of([np.full(3, start, np.float32)]) for start in (1, 2))
        self.steps = 0

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.steps += 1
            if self.steps % 7 == 0:
                self.w = Bundle.of([np.full(3, self.steps / 10, np.float32)])
            fed = np.full(3, 0.001 * self.steps, np.float32)
            (self.v,) = self.ledger.call(self.site, (self.v, self.w), None, (fed,))
            (self.w,) = self.ledger.call(self.site, (self.w, self.v), None, (fed,))

    def end(self) -> tuple[int, int]:
        """Entries that are left when all that can be reached is computed, and how many were."""
        self.ledger.flush()
        return len(self.ledger.entries), self.ledger.computed

    def look(self) -> list[bytes]:
        return [np.asarray(self.ledger.arrays(bundle)[0]).tobytes() for bundle in (self.v, self.w)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is full after a few entries, short chunks and trials."""
    for module, name, value in [(computing, "FULL", 24), (replay, "CHUNK", 5), (plans, "TRIAL", 4), (plans, "REPLAY_FROM", 10)]:
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException, int], None]:
    """Let the n-th wait for a flight raise."""

    def start(error: BaseException, number: int = 0) -> None:
        waits = itertools.count()

        def wait(stacks: object) -> object:
            if next(waits) == number:
                raise error
            return replay.jax.block_until_ready(stacks)

        monkeypatch.setattr(pending, "jax", types.SimpleNamespace(block_until_ready=wait))

    return start


def test_the_schedule_goes_on_while_a_full_ledger_is_computed() -> None:
    story, plain, flights = Story("replay"), Story("loop"), 0
    for _ in range(10):
        for each in (story, plain):
            each.go_on(13)
        flights += story.ledger.pending.flight is not None
    assert flights > 5
    assert story.look() == plain.look()
    assert story.ledger.pending.flight is None
    assert story.end() == plain.end()


@pytest.mark.parametrize("number", range(5))
def test_a_flight_that_fails_is_computed_again_call_by_call(number: int, failing: Callable[..., None]) -> None:
    failing(MemoryError("out of luck"), number)
    story, plain = Story("replay"), Story("loop")
    for _ in range(5):
        for each in (story, plain):
            each.go_on(13)
    assert story.look() == plain.look()
    assert len(story.ledger.plans.refuted) == 1  # it is not scanned again
    for each in (story, plain):
        each.go_on(20)
    assert story.look() == plain.look()
    # Of the entries that were put back, those are left out that nobody can reach any more.
    assert story.end()[0] == 0 and story.end()[1] <= plain.end()[1]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_whoever_is_interrupted_while_waiting_for_a_flight_finds_it_at_the_next_look(
    error: BaseException, failing: Callable[..., None]
) -> None:
    story, plain = Story("replay"), Story("loop")
    for each in (story, plain):
        each.go_on(16)
    assert story.ledger.pending.flight is not None
    failing(error)
    with pytest.raises(type(error)):
        story.look()
    assert story.look() == plain.look()
    assert story.end() == plain.end()


def test_what_comes_in_during_a_flight_that_fails_stays(failing: Callable[..., None]) -> None:
    story, plain = Story("replay"), Story("loop")
    for each in (story, plain):
        each.go_on(13)  # 26 entries: 24 fly, 2 wait
    assert story.ledger.pending.flight is not None
    failing(MemoryError("out of luck"))
    for each in (story, plain):
        each.v = Bundle.of([np.full(3, 5.0, np.float32)])
        each.go_on(3)
    assert story.look() == plain.look()


def test_a_flush_by_name_waits() -> None:
    story = Story("replay")
    story.go_on(16)
    story.ledger.flush()
    assert story.ledger.pending.flight is None and story.ledger.entries == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_table_that_nothing_in_a_flight_concerns_keeps_its_numbers(
    fails: bool, failing: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registers, "HUGE_BYTES", 64)
    story, large = Story("replay"), (Aval((64,), "float32"), AVAL)
    start, added = np.arange(64, dtype=np.float32), np.ones(3, np.float32)
    bundle, last = Bundle.of([start, added]), Bundle.of([start + 1, added])
    site = story.ledger.site(kernel_of("add", lambda table, few, x: (table + x[0], few + x), [*large, AVAL]), [large], [large])
    for _ in range(4):
        (bundle,) = story.ledger.call(site, (bundle,), None, (added,))
    (last,) = story.ledger.call(site, (last,), None, (added,))
    story.ledger.flush()
    story.go_on(13)
    assert story.ledger.pending.flight is not None
    if fails:
        failing(MemoryError("out of luck"))
    (bundle,) = story.ledger.call(site, (bundle,), None, (added,))
    for found, table, few in ((bundle, start + 5, added + 5), (last, start + 2, added + 1)):
        assert np.array_equal(story.ledger.arrays(found)[0], table)
        assert np.array_equal(story.ledger.arrays(found)[1], few)
