"""The line of progress: what it says while something goes on, and when it has ended."""

from __future__ import annotations

import numpy as np
import pytest

from simdist.training.progress import Progress


def running(**facts: object) -> str:
    return Progress(**({"title": "Epoch 1/2", "done": 5, "steps": 20, "real_s": 0.5} | facts)).line()  # pyright: ignore


def test_a_line_has_a_bar_steps_rate_time_to_go_and_both_times() -> None:
    expected = "Epoch 1/2 ━━━━━─────────────── 5/20 steps - 10.0 steps/s - 1.5 s to go - 0.5 s real - 75 s virtual"
    assert running(virtual_s=75.0) == expected.replace("75 s", "1:15 min")


def test_a_line_says_only_what_is_known() -> None:
    assert running(steps=None) == "Epoch 1/2 5 steps - 10.0 steps/s - 0.5 s real"
    assert running(done=0, real_s=0.0) == "Epoch 1/2 ──────────────────── 0/20 steps - 0 s real"
    assert running(done=0, real_s=0.0, results={}) == "Epoch 1/2 - 0/20 steps - 0 s real"


def test_time_to_go_knows_how_long_the_epoch_before_took() -> None:
    assert "- 1.5 s to go -" in running(expected_s=1.0)
    assert "- 3.5 s to go -" in running(expected_s=4.0)
    assert "- 0.5 s to go -" in running(steps=None, expected_s=1.0)
    assert "to go" not in running(steps=None, expected_s=0.25)


def test_when_all_steps_are_done_losses_are_computed() -> None:
    assert "- computing results -" in running(done=20)
    assert "computing" not in running(done=20, results={"loss": 1.0})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "0.2500"), (np.float32(12.0), "12.0000"), (3e-5, "3.0000e-05"), (-0.5, "-0.5000"), (0.0, "0.0000"), ("good", "good")],
)
def test_results_have_four_digits(value: object, text: str) -> None:
    assert running(done=20, results={"loss": value}).endswith(f" real - loss: {text}")
