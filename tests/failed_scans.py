"""What a scan of the ledger cannot compute is computed call by call, with the same numbers, and nobody would hear of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from simdist.ledger import ledger as ledger_module
from simdist.ledger import plans
from simdist.ledger.replay import Machine

__all__ = ["no_scan_may_fail", "scans_from_few_entries"]


@contextmanager
def no_scan_may_fail(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail at the end if a scan has failed inside."""
    errors: list[Exception] = []
    original = Machine.run

    def run(self: Machine, *args: Any, **options: Any) -> Any:
        try:
            return original(self, *args, **options)
        except Exception as error:
            errors.append(error)
            raise

    monkeypatch.setattr(Machine, "run", run)
    yield
    assert not errors


@contextmanager
def scans_from_few_entries(monkeypatch: pytest.MonkeyPatch, table_bytes: int) -> Iterator[None]:
    """Let short programs be computed in scans, of which none may fail, and arrays of so many bytes be tables."""
    monkeypatch.setattr(ledger_module, "TABLE_BYTES", table_bytes)
    monkeypatch.setattr(plans, "REPLAY_FROM", 40)
    monkeypatch.setattr(plans, "TRIAL", 3)
    with no_scan_may_fail(monkeypatch):
        yield
