"""Each new checkpoint of a directory, as it comes: who waits how long, and when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from tests.checkpoint.kept import Kept

variable: Any = sd.Variable


def save_at(seconds: list[float], directory: Path) -> Any:
    """A main that saves at these virtual seconds."""

    def main() -> None:
        checkpoint = sd.Checkpoint(kept=Kept(1))
        now_s = 0.0
        for second in seconds:
            sd.sleep(second - now_s)
            now_s = second
            checkpoint.save(directory / "ckpt")

    return main


def read_by(directory: Path, seconds: list[float], **options: Any) -> list[tuple[str, float]]:
    """What an evaluator is given, and when, while another main saves."""
    found: list[tuple[str, float]] = []
    with sd.Cluster({"worker": 1, "evaluator": 1}) as cluster:

        def evaluate() -> None:
            work_s = options.pop("work_s", 0.0)
            for path in sd.checkpoints_iterator(directory, **options):
                found.append((Path(path).name, round(cluster.now, 3)))
                sd.sleep(work_s)

        beside = cluster.launch(evaluate, job="evaluator")
        cluster.launch(save_at(seconds, directory)).join()
        beside.join()
        found.append(("end", round(cluster.now, 3)))
    return found


def test_each_new_one_is_given_once_and_it_ends_after_the_time(tmp_path: Path) -> None:
    found = read_by(tmp_path, [0.5, 3.2], timeout=4.0)
    assert found == [("ckpt-1", 1.0), ("ckpt-2", 4.0), ("end", 8.0)]


def test_of_several_that_come_meanwhile_the_last_is_given(tmp_path: Path) -> None:
    found = read_by(tmp_path, [0.5, 1.5, 2.0, 2.5], timeout=4.0, work_s=5.0)
    assert found == [("ckpt-1", 1.0), ("ckpt-4", 6.0), ("end", 15.0)]


def test_two_are_at_least_so_far_apart(tmp_path: Path) -> None:
    found = read_by(tmp_path, [0.5, 1.5, 2.0, 30.0], timeout=40.0, min_interval_secs=10.0)
    assert found == [("ckpt-1", 1.0), ("ckpt-3", 11.0), ("ckpt-4", 30.0), ("end", 80.0)]


@pytest.mark.parametrize(("timeout", "end_s"), [(0.0, 0.0), (0.25, 0.25), (2.5, 2.5)])
def test_the_time_is_exact(timeout: float, end_s: float, tmp_path: Path) -> None:
    assert read_by(tmp_path, [], timeout=timeout) == [("end", end_s)]


def test_the_function_is_asked_when_the_time_is_over_and_only_then(tmp_path: Path) -> None:
    asked: list[int] = []

    def may_end() -> bool:
        asked.append(1)
        return len(asked) == 3

    found = read_by(tmp_path, [0.5, 1.5], timeout=2.0, timeout_fn=may_end)
    assert found == [("ckpt-1", 1.0), ("ckpt-2", 2.0), ("end", 8.0)] and len(asked) == 3


def test_a_directory_that_is_made_later_is_read(tmp_path: Path) -> None:
    assert read_by(tmp_path / "later", [1.5], timeout=3.0) == [("ckpt-1", 2.0), ("end", 5.0)]


def test_arguments_are_checked_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        sd.checkpoints_iterator(tmp_path / "file")
    with pytest.raises(TypeError, match="timeout_fn is 3"):
        sd.checkpoints_iterator(tmp_path, timeout=1.0, timeout_fn=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="no timeout was given"):
        sd.checkpoints_iterator(tmp_path, timeout_fn=lambda: True)
    for name in ("min_interval_secs", "timeout"):
        for value in (-1.0, "1"):
            options: Any = {name: value}
            with pytest.raises((InvalidArgumentError, TypeError), match=name):
                sd.checkpoints_iterator(tmp_path, **options)
