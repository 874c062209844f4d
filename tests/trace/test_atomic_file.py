"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simdist_widgets as sw
from fresh_python import run_beside_engine
from simdist.errors import InvalidArgumentError, ResourceExhaustedError
from simdist.trace import Trace, atomic_file
from simdist.trace.atomic_file import replacing, replacing_path
from simdist.trace.event_file import EventFile


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    for step in range(50):
        trace.span("worker:0", "compute", "step", step * 1.0, step + 0.5, bytes=8)
    return trace


def perfetto(trace: Trace, folder: Path) -> Path:
    trace.to_perfetto(folder / "trace.json")
    return folder / "trace.json"


def tensorboard(trace: Trace, folder: Path) -> Path:
    return trace.to_tensorboard(folder)


def page(trace: Trace, folder: Path) -> Path:
    return sw.Timeline(trace).export_html(folder / "page.html")


WRITERS = [perfetto, tensorboard, page]


class FullDisk(io.FileIO):
    """A file with room for ten bytes."""

    code = errno.ENOSPC

    def write(self, data: Any) -> int:
        super().write(bytes(data)[:10])
        raise OSError(self.code, os.strerror(self.code))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_file, "_opened", lambda path: io.BufferedWriter(FullDisk(path, "wb"), 16))


@pytest.mark.parametrize("write", WRITERS)
def test_full_disk_is_said_with_the_path_and_leaves_no_file(
    write: Callable[[Trace, Path], Path], trace: Trace, tmp_path: Path, full_disk: None
) -> None:
    with pytest.raises(ResourceExhaustedError, match=str(tmp_path)):
        write(trace, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", WRITERS)
def test_full_disk_leaves_the_old_file_whole(
    write: Callable[[Trace, Path], Path], trace: Trace, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = write(trace, tmp_path)
    before = path.read_bytes()
    request.getfixturevalue("full_disk")
    trace.span("worker:0", "compute", "step", 99.0, 100.0)
    with pytest.raises(ResourceExhaustedError, match="disk is full"):
        write(trace, tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_other_errors_of_the_disk_come_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_disk: None) -> None:
    monkeypatch.setattr(FullDisk, "code", errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as raised, replacing(tmp_path / "x") as file:
        file.write(b"a" * 100)
    assert not isinstance(raised.value, MemoryError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_old_file_stays_when_the_writer_fails(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as file:
        file.write(b"new")
        file.flush()
        raise error
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])


def test_leftover_of_a_killed_writer_goes_with_the_next_write_of_that_file(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    leftovers = {name: tmp_path / f".{name}.{ended.pid}-1.unfinished" for name in ("x", "y")}
    writing = tmp_path / f".x.{os.getpid()}-1.unfinished"
    for path in (*leftovers.values(), writing):
        path.write_bytes(b"half")
    with replacing(tmp_path / "x") as file:
        file.write(b"new")
    assert {path.name for path in tmp_path.iterdir()} == {"x", leftovers["y"].name, writing.name}


def test_killed_writer_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    code = (
        "import os, signal; from simdist.trace.atomic_file import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert run_beside_engine(code, path).returncode == -signal.SIGKILL
    assert (path.read_bytes(), len(list(tmp_path.iterdir()))) == (b"old", 2)
    with replacing(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"new", [path])


def test_two_writers_at_once_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def other() -> None:
        with replacing(path) as file:
            file.write(b"b" * 9)

    with replacing(path) as file:
        file.write(b"a" * 5)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert path.read_bytes() == b"b" * 9
        file.write(b"a" * 5)
    assert path.read_bytes() == b"a" * 10


def test_rights_of_the_old_file_are_kept_and_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "real").read_bytes(), stat.S_IMODE((tmp_path / "real").stat().st_mode)) == (b"new", 0o640)


def test_device_is_written_to_and_not_replaced() -> None:
    with replacing(os.devnull) as file:
        file.write(b"gone")
    assert not Path(os.devnull).is_file()


def test_directory_and_path_below_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, words in ((tmp_path, "it is a directory"), (tmp_path / "file" / "x", "lies below a file")):
        with pytest.raises(InvalidArgumentError, match=words), replacing(path):
            pass


def test_a_path_that_a_library_writes_to_takes_the_place_of_the_old_file_when_all_is_there(tmp_path: Path) -> None:
    target = tmp_path / "model.weights.h5"
    target.write_bytes(b"old")
    target.chmod(0o640)
    with pytest.raises(ValueError, match="in the middle"), replacing_path(target) as path:
        path.write_bytes(b"ne")
        raise ValueError("in the middle")
    assert target.read_bytes() == b"old"
    with replacing_path(target) as path:
        assert path.name == target.name
        path.write_bytes(b"new")
        assert target.read_bytes() == b"old"
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode), list(tmp_path.iterdir())) == (b"new", 0o640, [target])


def test_a_directory_that_a_killed_process_left_is_taken_away(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True, text=True
    ).stdout.strip()
    (tmp_path / f".x.{ended}-1.unfinished").mkdir()
    with replacing_path(tmp_path / "x") as path:
        path.touch()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_path_that_is_no_regular_file_is_never_replaced() -> None:
    with replacing_path(os.devnull) as path:
        assert str(path) == os.devnull


def path_of_a_library(_: Trace, folder: Path) -> Path:
    """As models are saved."""
    with replacing_path(folder / "m.weights.h5") as path:
        return path


@pytest.mark.parametrize("write", [*WRITERS, path_of_a_library, lambda _, folder: EventFile(folder)])
def test_an_address_is_no_path_below_the_working_directory(
    write: Any, trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"^'gs:/bucket.*' is an address, and files are written and read on this machine alone"):
        write(trace, Path("gs://bucket/run"))
    assert not [*tmp_path.iterdir()]
