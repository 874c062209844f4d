"""What a directory holds, and the newest of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist.checkpoint import directory
from simdist.checkpoint.directory import found_in, newest_number
from simdist.checkpoint.manifest import MANIFEST
from simdist.errors import InvalidArgumentError
from tests.checkpoint.kept import Kept


def saved(path: Path, times: int = 1) -> list[str]:
    checkpoint = sd.Checkpoint(kept=Kept(1))
    return [checkpoint.save(path) for _ in range(times)]


def test_the_newest_is_the_one_that_was_saved_last_whatever_its_number(tmp_path: Path) -> None:
    saved(tmp_path / "b", 3)
    (last,) = saved(tmp_path / "a")
    assert sd.latest_checkpoint(tmp_path) == last
    assert [Path(one.path).name for one in found_in(tmp_path)] == ["b-1", "b-2", "b-3", "a-1"]
    (again,) = saved(tmp_path / "b")
    assert sd.latest_checkpoint(str(tmp_path)) == again == str(tmp_path / "b-1")
    assert [one.sequence for one in found_in(tmp_path)] == [2, 3, 4, 5]


def test_what_is_no_checkpoint_is_passed_over(tmp_path: Path) -> None:
    paths = saved(tmp_path / "ckpt", 2)
    for name in ("ckpt-9", "ckpt-x", ".ckpt-9", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "ckpt-8").write_text("a file")
    (tmp_path / "ckpt-7").symlink_to(paths[0])
    shutil.copytree(paths[0], tmp_path / ".hidden-6")
    shutil.copytree(paths[0], tmp_path / "without a number")
    assert sd.latest_checkpoint(tmp_path) == paths[1] and len(found_in(tmp_path)) == 2


@pytest.mark.parametrize(("number", "order"), [(3, [1, 2, 3]), (2, [1, 2, 3]), (1, [1, 2, 3])])
def test_one_whose_manifest_is_damaged_keeps_its_place_so_that_nobody_takes_an_older_one_for_it(
    number: int, order: list[int], tmp_path: Path
) -> None:
    paths = saved(tmp_path / "ckpt", 3)
    (Path(paths[number - 1]) / MANIFEST).write_text("{")
    assert [one.number for one in found_in(tmp_path)] == order
    assert sd.latest_checkpoint(tmp_path) == paths[2]
    assert newest_number(tmp_path, "ckpt") == 3 and newest_number(tmp_path, "other") == 0
    (tmp_path / "ckpt-7").mkdir()
    assert newest_number(tmp_path, "ckpt") == 7, "a name that is taken"


@pytest.mark.parametrize("prefix", ["ckpt", "a-1", "a b", "über", ""])
def test_any_prefix_is_found_again(prefix: str, tmp_path: Path) -> None:
    (path,) = saved(tmp_path / prefix) if prefix else saved(f"{tmp_path}/")  # type: ignore[arg-type]
    assert sd.latest_checkpoint(tmp_path) == path
    assert [one.prefix for one in found_in(tmp_path)] == [prefix]
    assert found_in(tmp_path, "another") == []


def test_a_directory_that_is_not_there_or_is_a_file(tmp_path: Path) -> None:
    assert sd.latest_checkpoint(tmp_path / "nothing") is None and sd.latest_checkpoint(tmp_path) is None
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="is a file; expected the directory"):
        sd.latest_checkpoint(tmp_path / "file")


def test_the_path_that_was_written_without_a_number_is_not_in_the_order(tmp_path: Path) -> None:
    checkpoint: Any = sd.Checkpoint(kept=Kept(1))
    assert checkpoint.write(tmp_path / "best") == str(tmp_path / "best") and sd.latest_checkpoint(tmp_path) is None
    checkpoint.restore(tmp_path / "best").assert_consumed()
    assert checkpoint.save_counter == 0


def test_each_manifest_is_read_once_however_often_the_directory_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, read_manifest = list[Path](), directory.read_manifest
    monkeypatch.setattr(directory, "read_manifest", lambda path: read.append(path) or read_manifest(path))
    paths = saved(tmp_path / "ckpt", 8)
    assert sd.latest_checkpoint(tmp_path) == sd.latest_checkpoint(tmp_path) == paths[-1]
    assert sorted(map(str, read)) == paths
    read.clear()
    shutil.rmtree(paths[2])
    shutil.copytree(paths[7], paths[2])  # another one with the same path
    assert [one.sequence for one in found_in(tmp_path)] == [1, 2, 4, 5, 6, 7, 8, 8] and list(map(str, read)) == paths[2:3]
