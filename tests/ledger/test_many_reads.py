"""Many reads of one value each: their cost does not grow with what is pending, and nobody is told of an error of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.ledger import computing, pending
from simdist.ledger.call_by_call import CallByCall
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle

ONE = (Aval((), "float32"),)
ADD = kernel_of("add", lambda a, b: (a + b,), [*ONE, *ONE])
MANY = 300


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries were pending, each time that a read has put some before the others."""
    lengths: list[int] = []
    original: Callable[..., Any] = pending.separate
    monkeypatch.setattr(pending, "separate", lambda entries, *args: lengths.append(len(entries)) or original(entries, *args))
    monkeypatch.setattr(computing, "MOST_PASSES", 4)
    return lengths


def noted(ledger: Ledger, count: int = MANY) -> list[Bundle]:
    """Running sums of ones and the like: each call needs the one before."""
    site, total, found = ledger.site(ADD, [ONE, ONE], [ONE]), Bundle.of([np.zeros((), np.float32)]), []
    for number in range(count):
        total = ledger.call(site, [total, Bundle.of([np.float32(number)])], None)[0]
        found.append(total)
    return found


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_values_that_are_read_one_by_one_are_computed_together_after_some(numerics: str, passed: list[int]) -> None:
    ledger = Ledger(numerics)
    values = [float(ledger.arrays(bundle)[0]) for bundle in noted(ledger)]
    assert values == np.cumsum(np.arange(MANY, dtype=np.float32)).tolist()
    assert 0 < sum(passed) <= 5 * MANY


def test_so_many_that_a_scan_is_compiled_for_them_wait_longer(passed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "REPLAY_FROM", MANY // 2)
    monkeypatch.setattr(computing, "MOST_PASSED", 40 * MANY)
    ledger = Ledger("loop")
    values = [float(ledger.arrays(bundle)[0]) for bundle in noted(ledger)]
    assert values == np.cumsum(np.arange(MANY, dtype=np.float32)).tolist()
    assert 20 * MANY < sum(passed) <= 45 * MANY


@pytest.mark.parametrize("steps", [200, 400])
def test_what_each_step_leaves_unread_is_computed_before_reads_pass_through_much_of_it(steps: int, passed: list[int]) -> None:
    ledger = Ledger("deferred")
    site, loss, metric = ledger.site(ADD, [ONE, ONE], [ONE]), Bundle.of([np.float32(0)]), Bundle.of([np.float32(0)])
    for _ in range(steps):
        loss = ledger.call(site, [loss, Bundle.of([np.float32(1)])], None)[0]
        metric = ledger.call(site, [metric, loss], None)[0]
        ledger.arrays(loss)
    assert sum(passed) <= 40 * steps, "the mean length of the queue does not depend on the number of steps"
    assert float(ledger.arrays(metric)[0]) == steps * (steps + 1) / 2


@pytest.mark.parametrize("numerics", ["loop", "replay", "vmap"])
def test_reads_of_a_long_run_need_no_more_registers_than_those_of_a_short_one(numerics: str, passed: list[int]) -> None:
    sizes: list[int] = []
    ledger = Ledger(numerics)
    site = ledger.site(ADD, [ONE, ONE], [ONE])
    loss, metric, one = (Bundle.of([np.full((), number, np.float32)]) for number in (0, 0, 1))
    for step in range(1, 401):
        loss = ledger.call(site, [loss, one], None)[0]
        metric = ledger.call(site, [metric, loss], None)[0]
        ledger.arrays(loss)
        if step % 200 == 0:
            sizes.append(ledger.files[ONE].size)
    assert len(passed) > 100 and sizes[0] == sizes[1]
    assert float(ledger.arrays(metric)[0]) == 400 * 401 / 2


def test_reads_of_what_is_known_do_not_compute_what_is_pending_at_once(passed: list[int]) -> None:
    ledger = Ledger("loop")
    first, *others = noted(ledger)
    for _ in range(3):
        ledger.arrays(first)
    assert ledger.computed == 1
    assert all(bundle.arrays is None for bundle in others)


def test_an_error_of_what_nobody_reads_yet_is_raised_by_its_own_read(passed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger("loop")
    mine, others = noted(ledger), noted(ledger, 1)
    original = CallByCall.run_kernel

    def run_kernel(calls: CallByCall, *arguments: Any) -> Any:
        if len(ledger.entries) == 1:  # the last one, of the others
            raise MemoryError("of the others")
        return original(calls, *arguments)

    monkeypatch.setattr(CallByCall, "run_kernel", run_kernel)
    values = [float(ledger.arrays(bundle)[0]) for bundle in mine]
    assert values == np.cumsum(np.arange(MANY, dtype=np.float32)).tolist()
    with pytest.raises(MemoryError, match="of the others"):
        ledger.arrays(others[0])


def test_results_of_many_closures_are_fetched_in_one_pass(passed: list[int]) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 5, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        total = sd.Variable(0.0)

    @sd.function
    def step() -> Any:
        total.assign_add(1.0)
        return total.value

    results = [coordinator.schedule(step) for _ in range(MANY)]
    coordinator.join()
    fetched = [float(result.fetch()) for result in results]
    assert max(fetched) == MANY
    assert len(passed) <= 12
