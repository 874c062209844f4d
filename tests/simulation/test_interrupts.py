"""Ctrl-C that comes after the last event of a wait ends that wait, and not one of a later cell."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import simdist as sd
from simdist.simulation import kernel


def test_ctrl_c_after_the_last_event_is_raised_by_the_wait_that_it_came_in(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = sd.Cluster({"worker": 1})
    run_events = kernel.run_events

    def interrupted(*arguments: Any) -> None:
        run_events(*arguments)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(kernel, "run_events", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sd.sleep(1.0, cluster)
    assert cluster.now == 1.0
    sd.sleep(1.0, cluster)
    assert cluster.now == 2.0
