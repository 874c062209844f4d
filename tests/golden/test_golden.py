"""Golden runs: their traces are the same ones, instant by instant, and their numbers are the same to five digits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from failed_scans import no_scan_may_fail
from sampling import sampled
from tests.golden.measuring import measure
from tests.golden.runs import RUNS
from tests.golden.stored import differences, read
from tests.runtime.wall_sample import THROUGH_A_PROXY

STORED = read()


# They compile longest; other runs, and tests of packs, of accumulation, of compressors and of mains, try the same mechanisms in CI.
LONG = {
    "fit: mirrored, dropout and batch statistics",
    "fit: survivors",
    "fit: central storage",
    "disturbed: survivors of long collectives",
    "disturbed: mains crash within a latency",
    "together: local steps, outer optimizer",
    "together: conversations",
    "together: mirrored, NCCL in two packs",
    "mains: values of all",
    "fit: packs while computing",
    "fit: accumulated gradients",
    "together: compressed",
    "disturbed: mains crash in a long collective",
}


@pytest.fixture(autouse=True)
def no_scan_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with no_scan_may_fail(monkeypatch):
        yield


# CI runs some through a proxy of the engine (tests/runtime/test_wall.py): those are compared with what is stored there.
@pytest.mark.parametrize("name", sampled(RUNS, RUNS.keys() - LONG - THROUGH_A_PROXY))
def test_run_is_as_it_was(name: str) -> None:
    found = differences(STORED[name], measure(name))
    assert not found, (
        f"the golden run {name!r} is not as it was: {'; '.join(found)}. Find out why: `python tests/golden/compare.py --base main "
        f"--only '{name}'` also compares exact bits with another revision. If the change is meant, say so in the commit, and store it "
        f"anew: python tests/golden/store.py '{name}'"
    )


def test_what_is_stored_are_the_runs_that_there_are() -> None:
    assert set(STORED) == set(RUNS)
