"""Trials of kernels: each is tried once, near the entry where it is first met, and what is proved already is not tried again."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import pytest

from simdist.ledger import failed_scans, plans
from simdist.ledger.entry import Entry
from simdist.ledger.ledger import Ledger
from simdist.ledger.plans import ComputePlans
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval, Bundle

ONE = (Aval((3,), "float32"),)
START = np.arange(3, dtype=np.float32)


def add(number: float) -> Kernel:
    return kernel_of(f"add {number}", lambda array: [array + number], ONE)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries were computed in each trial."""
    monkeypatch.setattr(plans, "TRIAL", 4)
    lengths: list[int] = []
    usual = ComputePlans._try

    def noted(self: ComputePlans, entries: Sequence[Entry], noted: Sequence[BaseException]) -> None:
        lengths.append(len(entries))
        usual(self, entries, noted)

    monkeypatch.setattr(ComputePlans, "_try", noted)
    return lengths


def computed(counts: Sequence[tuple[Kernel, int]]) -> float:
    """A chain of calls, so many of each kernel, one kernel after the other; the first number at its end."""
    ledger, bundle = Ledger("replay"), Bundle.of([START])
    for kernel, count in counts:
        site = ledger.site(kernel, [ONE], [ONE])
        for _ in range(count):
            (bundle,) = ledger.call(site, [bundle])
    assert not ledger.plans.refuted
    return float(ledger.arrays(bundle)[0][0])


def test_a_kernel_that_comes_late_is_tried_where_it_comes(tried: list[int]) -> None:
    assert computed([(add(1.0), 50), (add(2.0), 50)]) == 150
    assert tried == [4, 4]


def test_kernels_that_come_together_are_tried_together(tried: list[int]) -> None:
    assert computed([(add(1.0), 2), (add(2.0), 60)]) == 122
    assert tried == [4]


def test_a_kernel_that_comes_soon_after_proved_ones_is_tried_with_them(tried: list[int]) -> None:
    assert computed([(add(1.0), 7), (add(2.0), 20)]) == 47
    assert tried == [4, 4]


def test_numbers_with_other_bits_are_not_equal() -> None:
    zero, nan = np.zeros(3, np.float32), np.full((), np.nan, np.float32)
    assert plans._equal([zero, nan], [zero.copy(), nan.copy()])
    assert not plans._equal([zero], [-zero])
    assert not plans._equal([nan], [-nan])


def test_a_short_stretch_is_scanned_where_the_scan_is_compiled_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "REPLAY_FROM", 600)
    kernel, ledger, bundle, scanned = add(1.0), Ledger("deferred"), Bundle.of([START]), list[int]()
    usual = ComputePlans._scan
    monkeypatch.setattr(ComputePlans, "_scan", lambda self, entries, *rest: (scanned.append(len(entries)), usual(self, entries, *rest)))
    site = ledger.site(kernel, [ONE], [ONE])
    for count in (300, 700, 300, 100):
        for _ in range(count):
            (bundle,) = ledger.call(site, [bundle])
        ledger.arrays(bundle)
    assert scanned == [700 - plans.TRIAL, 300]
    assert ledger.compilations == 1
    assert float(ledger.arrays(bundle)[0][0]) == 1_400


def failing(error: Exception) -> Ledger:
    """A ledger whose scans fail."""
    ledger = Ledger("replay")

    def run(*args: object) -> None:
        raise error

    ledger.plans.machine.run = run  # type: ignore[method-assign]
    return ledger


def look(ledger: Ledger) -> float:
    """The first number after 70 additions of 1."""
    site, bundle = ledger.site(add(1.0), [ONE], [ONE]), Bundle.of([START])
    for _ in range(70):
        (bundle,) = ledger.call(site, [bundle])
    return float(ledger.arrays(bundle)[0][0])


def test_a_scan_that_fails_by_our_own_error_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_scans, "_warned", [])
    with pytest.warns(RuntimeWarning, match=r"scan \(ValueError: zip.*\), which is a defect .* same numbers"):
        assert look(failing(ValueError("zip() argument 2 is longer"))) == 70
    assert look(failing(ValueError("again"))) == 70


@pytest.mark.parametrize("error", [MemoryError(), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")])
def test_a_scan_that_fails_as_users_can_make_it_fail_is_computed_without_a_word(error: Exception) -> None:
    ledger = failing(error)
    assert look(ledger) == 70 and ledger.plans.refuted


def test_a_callback_that_raises_in_a_scan_is_no_defect_of_ours(recwarn: pytest.WarningsRecorder) -> None:
    def same(number: np.ndarray) -> np.ndarray:
        if number[0] == 300:
            raise ValueError("three hundred")
        return number

    def counted(array: jax.Array) -> list[jax.Array]:
        return [jax.pure_callback(same, jax.ShapeDtypeStruct((3,), "float32"), array) + 1]

    ledger, bundle = Ledger("replay"), Bundle.of([START])
    site = ledger.site(kernel_of("counted", counted, ONE), [ONE], [ONE])
    for _ in range(1_000):
        (bundle,) = ledger.call(site, [bundle], where=("worker:0", 300, 0.0))
    with pytest.raises(Exception, match="three hundred"):
        ledger.arrays(bundle)
    assert not [warning for warning in recwarn if "defect" in str(warning.message)]


def test_data_that_cannot_be_read_for_a_scan_are_no_defect() -> None:
    ledger = Ledger("replay")

    def tables(branches: object) -> list[tuple[jax.Array, ...]]:
        raise ValueError("of the function of a dataset")

    ledger.plans.machine.tables = tables  # type: ignore[method-assign]
    assert look(ledger) == 70 and ledger.plans.refuted
