"""The files of a checkpoint: Orbax reads them alone, what is damaged is refused, and what cannot be written leaves the old one."""

from __future__ import annotations

import errno
import json
import logging
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.checkpoint import files
from simdist.checkpoint.manifest import MANIFEST, read_manifest
from simdist.errors import DataLossError, InvalidArgumentError, NotFoundError, ResourceExhaustedError, SimdistError
from tests.checkpoint.kept import Kept

variable: Any = sd.Variable
DTYPES = ("float32", "bfloat16", "float16", "int8", "bool", "uint32", "int32", "complex64")
SHAPES = ((), (3,), (2, 3), (0, 4), (1, 0))


def array_of(dtype: str, shape: tuple[int, ...]) -> Any:
    """Numbers from 1 on, or from 0 to 1 as truth values."""
    numbers = np.arange(1, 1 + int(np.prod(shape, dtype=int))).reshape(shape)
    return (numbers % 2).astype(bool) if dtype == "bool" else numbers.astype(jnp.dtype(dtype))


def saved(directory: Path, *values: float) -> tuple[sd.Checkpoint, sd.Variable, Path]:
    """A checkpoint of one variable, saved once."""
    v = variable(values or (1.0, 2.0))
    checkpoint = sd.Checkpoint(v=v, kept=Kept({"epoch": 3}))
    return checkpoint, v, Path(checkpoint.save(directory / "ckpt"))


def listed(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_orbax_alone_reads_a_checkpoint_with_the_names_of_its_objects(tmp_path: Path) -> None:
    pair = {"a": variable([1.0, 2.0]), "b.c": variable(np.array([[3], [4]], np.int8))}
    path = sd.Checkpoint(pair=pair, list=[variable(5.0)], half=variable(jnp.asarray([1.5], jnp.bfloat16))).save(tmp_path / "ckpt")
    program = f"""
import sys, orbax.checkpoint
found = orbax.checkpoint.PyTreeCheckpointer().restore({path!r})
assert not any(name.partition(".")[0] in ("simdist", "keras") for name in sys.modules)
print(found["pair"]["a"].tolist(), found["pair"]["b%2Ec"].tolist(), found["list"]["0"].tolist(), found["half"].dtype, sorted(found))
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ran.stdout.strip() == "[1.0, 2.0] [[3], [4]] 5.0 bfloat16 ['half', 'list', 'pair', 'simdist']", ran.stderr


def test_arrays_of_every_dtype_and_shape_are_restored_bit_by_bit(tmp_path: Path) -> None:
    arrays = [*(array_of(dtype, (2, 3)) for dtype in DTYPES), *(array_of("bfloat16", shape) for shape in SHAPES)]
    path = sd.Checkpoint(all=[variable(array) for array in arrays]).save(tmp_path / "ckpt")
    others = [variable(jnp.zeros(array.shape, array.dtype)) for array in arrays]
    sd.Checkpoint(all=others).restore(path).assert_consumed()
    for array, other in zip(arrays, others, strict=True):
        assert other.numpy().dtype == array.dtype and other.numpy().tobytes() == array.tobytes()


def test_numbers_that_are_none_and_bits_of_zeros_stay(tmp_path: Path) -> None:
    array = np.array([np.nan, -np.inf, -0.0, 1e-45], np.float32)
    path = sd.Checkpoint(v=variable(array)).save(tmp_path / "ckpt")
    v = variable(np.zeros(4, np.float32))
    sd.Checkpoint(v=v).restore(path)
    assert v.numpy().tobytes() == array.tobytes()


def test_keys_of_dicts_may_have_any_signs(tmp_path: Path) -> None:
    keys = ["a/b", "a.b", "a%2Fb", "a", "..", ".", "", "%", "über\n", "0", "vars/0", "/", "replica_values", "simdist"]
    values: dict[str, Any] = {key: variable(float(number)) for number, key in enumerate(keys)}
    values["a"] = {"b": variable(30.0)}
    path = sd.Checkpoint(d=values).save(tmp_path / "ckpt")
    others: dict[str, Any] = {key: variable(-1.0) for key in keys} | {"a": {"b": variable(-1.0)}}
    sd.Checkpoint(d=others).restore(path).assert_consumed()
    found = {key: float(other["b"] if isinstance(other, dict) else other) for key, other in others.items()}
    assert found == {key: float(number) for number, key in enumerate(keys)} | {"a": 30.0}
    assert listed(tmp_path) == ["ckpt-1"]


def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint, v, path = saved(Path("below/there"))
    v.assign([0.0, 0.0])
    checkpoint.restore("below/there/ckpt-1").assert_consumed()
    assert str(path) == "below/there/ckpt-1" == sd.latest_checkpoint("below/there") and v.numpy().tolist() == [1.0, 2.0]


# -- damage ---------------------------------------------------------------------------------------------------------------


def files_of(path: Path) -> list[Path]:
    return sorted(found for found in path.rglob("*") if found.is_file())


def truncate(path: Path, chooser: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chooser.randrange(len(content))] if content else b"0")


def flip(path: Path, chooser: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"1")
    content[chooser.randrange(len(content))] ^= 1 << chooser.randrange(8)
    path.write_bytes(content)


def delete(path: Path, chooser: random.Random) -> None:
    path.unlink()


DAMAGES = {"truncate": truncate, "flip": flip, "delete": delete}


@pytest.mark.parametrize("seed", sampled(range(300), sample=range(1)))
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused_and_change_nothing(damage: str, seed: int, tmp_path: Path) -> None:
    chooser = random.Random(f"{damage} {seed}")
    array = np.random.default_rng(seed).random(400).astype(np.float32)
    v, kept, w = variable(array), Kept({"epoch": 3}), variable(np.arange(3))
    original = Path(sd.Checkpoint(v=v, w=w, kept=kept).save(tmp_path / "ckpt"))
    names = files_of(original)
    for number in range(len(names)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(original, copy)
        DAMAGES[damage](files_of(copy)[number], chooser)
        kept.state = "as it was"
        v.assign(0 * array)
        w.assign([0, 0, 0])
        with pytest.raises(SimdistError) as caught:
            sd.Checkpoint(v=v, w=w, kept=kept).restore(copy)
        assert caught.type is DataLossError or names[number].name == MANIFEST
        assert kept.state == "as it was" and not v.numpy().any() and not w.numpy().any()


def test_each_kind_of_damage_of_the_values_has_its_error(tmp_path: Path) -> None:
    checkpoint, _, path = saved(tmp_path)
    largest = max((found for found in files_of(path) if found.name != MANIFEST), key=lambda found: found.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:20])
    with pytest.raises(DataLossError, match=r"ckpt-1' is damaged.*Restore another checkpoint"):
        checkpoint.restore(path)
    shutil.rmtree(path / "d")
    with pytest.raises(DataLossError, match="its files are not what was saved"):
        checkpoint.restore(path)


def test_files_of_another_checkpoint_and_files_that_were_added_are_noticed(tmp_path: Path) -> None:
    _, _, first = saved(tmp_path / "a", 1.0, 2.0)
    checkpoint, v, second = saved(tmp_path / "b", 3.0, 4.0)
    (second / ".of the file manager").write_text("no part of it")
    checkpoint.restore(second)
    (second / "added").write_text("")
    shutil.copy(second / MANIFEST, first / MANIFEST)
    for path in (first, second):
        with pytest.raises(DataLossError, match="not what was saved"):
            checkpoint.restore(path)
    assert v.numpy().tolist() == [3.0, 4.0]


def test_an_array_that_orbax_reads_otherwise_than_it_was_written_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, _, path = saved(tmp_path)
    for found in ({}, {"v": np.array([1.0, 2.5], np.float32)}, {"v": np.array([[1.0, 2.0]], np.float32)}, {"v": np.array([1.0, 2.0])}):
        monkeypatch.setattr(files, "_orbax", lambda found=found: SimpleNamespace(restore=lambda path: found))
        with pytest.raises(DataLossError, match="'v' is not what was saved"):
            checkpoint.restore(path)
    monkeypatch.setattr(files, "_orbax", lambda: SimpleNamespace(restore=lambda path: 1 / 0))
    with pytest.raises(DataLossError, match="ZeroDivisionError"):
        checkpoint.restore(path)


def test_what_is_no_checkpoint_is_refused_by_its_kind(tmp_path: Path) -> None:
    checkpoint, _, path = saved(tmp_path)
    for missing in (tmp_path / "nothing", tmp_path / "nothing" / "below"):
        with pytest.raises(NotFoundError, match="There is no checkpoint"):
            checkpoint.restore(missing)
    (tmp_path / "file").write_text("text")
    with pytest.raises(NotFoundError, match="There is no checkpoint"):
        checkpoint.restore(tmp_path / "file")
    with pytest.raises(InvalidArgumentError, match=r"no checkpoint of simdist: it has no simdist\.json"):
        checkpoint.restore(tmp_path)
    content = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps(content | {"version": 99}))
    with pytest.raises(InvalidArgumentError, match="version 99; this simdist reads"):
        checkpoint.restore(path)
    assert sd.latest_checkpoint(tmp_path) == str(path), "not an older one, or none"


@pytest.mark.parametrize("where", ["the directory", "a file", "the manifest", "a directory in it"])
def test_links_are_not_followed(where: str, tmp_path: Path) -> None:
    checkpoint, _, path = saved(tmp_path)
    aside = tmp_path / "aside"
    link = {"the directory": path, "a file": path / "_METADATA", "the manifest": path / MANIFEST, "a directory in it": path / "d"}[where]
    link.rename(aside)
    link.symlink_to(aside)
    with pytest.raises(InvalidArgumentError, match="is a link"):
        checkpoint.restore(path)
    assert sd.latest_checkpoint(tmp_path) is None or where in ("a file", "a directory in it")


def test_a_file_in_the_place_of_the_checkpoint_or_above_it_is_refused(tmp_path: Path) -> None:
    checkpoint, _, _ = saved(tmp_path)
    (tmp_path / "file").write_text("text")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        checkpoint.write(tmp_path / "file")
    with pytest.raises(InvalidArgumentError, match="lies below a file"):
        checkpoint.save(tmp_path / "file" / "ckpt")
    assert (tmp_path / "file").read_text() == "text" and checkpoint.save_counter == 1


def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = Path(files.__file__).parent.glob("*.py")
    assert not [path.name for path in sources if any(word in path.read_text() for word in ("pickle", "dill", "eval(", "exec(", "marshal"))]

    def refused(*args: Any, **options: Any) -> Any:
        raise AssertionError("a checkpoint was pickled")

    checkpoint, _, path = saved(tmp_path)
    for name in ("load", "loads", "Unpickler", "dump", "dumps", "Pickler"):
        monkeypatch.setattr(pickle, name, refused)
    checkpoint.save(tmp_path / "again")
    checkpoint.restore(path).assert_consumed()
    assert not [found for found in files_of(path) if found.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05")]


# -- writing that fails ---------------------------------------------------------------------------------------------------


def no_room(*args: Any, **options: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


class FullOrbax:
    """As Orbax on a full disk: a part of a temporary directory, and TensorStore's words."""

    def save(self, path: Path, tree: Any) -> None:
        Path(f"{path}.orbax-checkpoint-tmp").mkdir()
        Path(f"{path}.orbax-checkpoint-tmp", "part").write_bytes(b"123")
        raise ValueError("RESOURCE_EXHAUSTED: Error writing local file: [OS error 28: ENOSPC No space left on device]")


def fail_in_orbax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_orbax", FullOrbax)


def fail_in_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_text", no_room)


def fail_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda self, target: no_room() if self.name == "complete" else rename(self, target))


FAILURES = [(fail, engine) for fail in (fail_in_orbax, fail_in_the_manifest, fail_at_the_end) for engine in ("none", "simulated")]


@pytest.mark.parametrize(("fail", "engine"), sampled(FAILURES, [FAILURES[0], FAILURES[3], FAILURES[5]]))
def test_a_full_disk_of_the_machine_leaves_the_old_checkpoint_and_nothing_else(
    fail: Callable[[pytest.MonkeyPatch], None], engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(1)
    checkpoint = sd.Checkpoint(kept=kept) if engine == "none" else sd.Checkpoint(kept=kept, v=variable(1.0))
    checkpoint.write(tmp_path / "ckpt")
    kept.state = 2
    with monkeypatch.context() as patched:
        fail(patched)
        with pytest.raises(ResourceExhaustedError, match="disk is full"):
            checkpoint.write(tmp_path / "ckpt")
        with pytest.raises(ResourceExhaustedError, match="disk is full"):
            checkpoint.save(tmp_path / "new")
    assert listed(tmp_path) == ["ckpt"]
    checkpoint.restore(tmp_path / "ckpt")
    assert kept.state == 1
    before = checkpoint.save_counter
    assert checkpoint.save(tmp_path / "new") == str(tmp_path / f"new-{before + 1}")


def test_other_errors_of_a_write_are_raised_as_they_are_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, _, _ = saved(tmp_path)

    class Broken:
        def save(self, path: Path, tree: Any) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "_orbax", Broken)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path / "ckpt")
    assert listed(tmp_path) == ["ckpt-1"] and checkpoint.save_counter == 1


def test_what_a_dead_process_has_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    dead, living = int(ended.stdout), os.getppid()

    def unfinished(name: str, process: int) -> Path:
        found = tmp_path / f".{name}.1.{process}-7.unfinished"
        (found / "complete.orbax-checkpoint-tmp-3").mkdir(parents=True)
        (found / "complete.orbax-checkpoint-tmp-3" / "part").write_bytes(b"12")
        return found

    gone, stays, other = unfinished("ckpt-1", dead), unfinished("ckpt-1", living), unfinished("other-1", dead)
    v = variable(1.0)
    sd.Checkpoint(v=v).save(tmp_path / "ckpt")
    assert not gone.exists() and stays.is_dir() and other.is_dir()
    sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 1, checkpoint_name="other")
    assert not other.exists() and stays.is_dir()


def test_the_log_of_orbax_is_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("absl")
    before = log.level
    _, _, path = saved(tmp_path)
    monkeypatch.setattr(files, "_checksum_of_files", lambda path: read_manifest(path).files)
    (path / "_METADATA").write_text("{")
    with pytest.raises(DataLossError):
        sd.Checkpoint(v=variable([0.0, 0.0])).restore(path)
    assert log.level == before and not caplog.records


def test_a_directory_with_other_things_is_not_replaced(tmp_path: Path) -> None:
    checkpoint: Any = sd.Checkpoint(kept=Kept(1))
    (tmp_path / "out").mkdir()
    checkpoint.write(tmp_path / "out")
    checkpoint.write(tmp_path / "out")  # an empty directory, and a checkpoint, are
    for other in ("mine", "mine-1"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "notes.txt").write_text("text")
    for save in (checkpoint.write, checkpoint.save):
        with pytest.raises(InvalidArgumentError, match="other things than a checkpoint"):
            save(tmp_path / "mine")
    assert [(tmp_path / other / "notes.txt").read_text() for other in ("mine", "mine-1")] == ["text", "text"]
    assert checkpoint.save_counter == 0


def test_brackets_that_orbax_would_take_for_a_pattern_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="brackets"):
        sd.Checkpoint(kept=Kept(1)).save(tmp_path / "run[1]" / "ckpt")
    assert not (tmp_path / "run[1]").exists()


@pytest.mark.parametrize("stopped", [1, 2])
def test_a_save_that_is_interrupted_leaves_the_checkpoint_that_had_its_name(
    stopped: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept("old")
    checkpoint: Any = sd.Checkpoint(kept=kept)
    checkpoint.write(tmp_path / "best")
    kept.state, rename, count = "new", Path.rename, 0

    def interrupted(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == stopped:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.write(tmp_path / "best")
    checkpoint.restore(tmp_path / "best").assert_consumed()
    assert kept.state == "old" and listed(tmp_path) == ["best"]
