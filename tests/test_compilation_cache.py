"""The compilation cache: the same bits with and without it, two writers at once, its bound, damage, and who decides."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from simdist import compilation_cache, doctor
from simdist.compilation_cache import ENABLED, PATTERN, THRESHOLDS, WHERE, directory, switch_on, tidy

# Without Keras, whose import takes longer than the rest.
TRAINING = """
import hashlib, jax, jax.numpy as jnp, numpy as np
import simdist as sd
compiled = []
jax.monitoring.register_event_listener(lambda event, **_: compiled.append(event) if event.endswith("/cache_misses") else None)
rng = np.random.default_rng(0)
x = rng.random((24, 6)).astype(np.float32)
with sd.Cluster({"worker": 2, "ps": 1}, seed=0) as cluster:
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        weights = [sd.Variable(rng.normal(size=shape).astype(np.float32)) for shape in ((6, 5), (5,), (5, 1))]
    @sd.function
    def step(iterator):
        rows = next(iterator)
        def loss():
            inner, bias, outer = (weight.value for weight in weights)
            return jnp.mean((jnp.tanh(rows @ inner + bias) @ outer - rows[:, :1]) ** 2)
        value, gradients = sd.value_and_grad(loss, weights)()
        for weight, gradient in zip(weights, gradients):
            weight.assign_sub(0.1 * gradient)
        return value
    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices(x).repeat().batch(8)))
    losses = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(12)])
    bits = b"".join(np.asarray(one).tobytes() for one in [*losses, *(weight.numpy() for weight in weights)])
    print(hashlib.sha256(bits).hexdigest(), cluster.trace.digest(), len(compiled))
"""
THREE = "import jax; print([jax.jit(f)(2.0).tolist() for f in (lambda x: x * 3 + x, lambda x: x / 7, lambda x: x * x - 1)])"


def started(code: str, folder: Path | None) -> subprocess.Popen[str]:
    """A new interpreter with its cache in a folder, or without one."""
    own = {name: value for name, value in os.environ.items() if name != WHERE}
    cache = {ENABLED: "false"} if folder is None else {WHERE: str(folder), **dict.fromkeys(THRESHOLDS, "0")}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env={**own, **cache}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip()


@pytest.mark.slow
def test_bits_are_the_same_without_a_cache_from_two_that_fill_it_at_once_and_from_the_filled_one(tmp_path: Path) -> None:
    filling = [started(TRAINING, tmp_path) for _ in range(2)]
    (*first, compiled), (*second, compiled_too) = (printed(process).split() for process in filling)
    assert first == second
    filled, without = started(TRAINING, tmp_path), started(TRAINING, None)
    assert int(compiled) + int(compiled_too) > 0  # one may find all that the other has compiled
    assert printed(filled).split() == [*first, "0"]
    assert printed(without).split()[:2] == first
    tidy(tmp_path)
    assert all(zlib.decompress(entry.read_bytes()) for entry in tmp_path.glob(PATTERN))


def test_damaged_files_cost_a_warning_until_they_are_taken_out(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    numbers = printed(started(THREE, folder))
    cut, empty, nonsense = sorted(folder.glob(PATTERN))
    cut.write_bytes(cut.read_bytes()[:-20])
    empty.write_bytes(b"")
    nonsense.write_bytes(zlib.compress(b"no code at all"))
    process = started(THREE, folder)
    out, err = process.communicate()
    assert out.strip() == numbers
    assert "UserWarning: Error reading persistent compilation cache entry" in err
    tidy(folder)
    assert list(folder.glob(PATTERN)) == [nonsense]  # whole, as far as can be told without loading it


def entry(folder: Path, name: str, size_bytes: int, used_s: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-cache"
    path.write_bytes(zlib.compress(b"code").ljust(size_bytes, b" "))
    os.utime(path, (used_s, used_s))
    return path


def test_what_was_used_last_stays_within_the_bound(tmp_path: Path) -> None:
    folder = tmp_path / "versions"
    (folder / compilation_cache.CHECKED).parent.mkdir()
    (folder / compilation_cache.CHECKED).touch()
    for number in range(10):
        entry(folder, f"k{number}", 100, used_s=1_000.0 + number)
    os.utime(folder / "k2-cache", (5_000.0, 1_002.0))
    tidy(folder, largest_bytes=350)
    assert sorted(path.name for path in folder.glob(PATTERN)) == ["k2-cache", "k8-cache", "k9-cache"]


def test_folders_of_other_versions_are_taken_out(tmp_path: Path) -> None:
    entry(tmp_path / "old", "k", 20, 0.0)
    kept = entry(tmp_path / "new", "k", 12, 0.0)
    tidy(tmp_path / "new")
    assert not (tmp_path / "old").exists()
    assert kept.exists()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An empty environment of variables, and a virtual environment that is in a folder of its own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return {}


def test_switching_on_makes_the_folder_of_these_versions(environment: dict[str, str], tmp_path: Path) -> None:
    folder = switch_on(environment)
    assert folder is not None and folder == directory() and folder.is_dir() and folder.is_relative_to(tmp_path)
    assert environment == {WHERE: str(folder), **dict.fromkeys(THRESHOLDS, "0")}
    assert folder.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("own", [{WHERE: "/somewhere"}, {WHERE: ""}, {ENABLED: "false"}])
def test_setting_of_the_user_wins(environment: dict[str, str], tmp_path: Path, own: dict[str, str]) -> None:
    environment |= own
    assert switch_on(environment) is None
    assert environment == own
    assert not list(tmp_path.iterdir())


def test_threshold_of_the_user_is_kept(environment: dict[str, str]) -> None:
    environment[THRESHOLDS[0]] = "2.5"
    assert switch_on(environment)
    assert environment[THRESHOLDS[0]] == "2.5"


def test_folder_that_cannot_be_made_means_no_cache(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / compilation_cache.FOLDER).write_text("a file")
    assert switch_on(environment) is None
    assert environment == {}


def test_outside_a_virtual_environment_there_is_none(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert switch_on(environment) is None


def test_import_of_the_library_leaves_the_setting_alone() -> None:
    code = f"import os, simdist, jax; print(jax.config.jax_compilation_cache_dir, os.environ.get({WHERE!r}))"
    variables = {name: value for name, value in os.environ.items() if name != WHERE}
    assert subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True).stdout.strip() == "None None"


def test_loaded_jax_is_told_and_the_processes_that_follow() -> None:
    code = (
        "import os, jax, simdist.compilation_cache as c, sys, tempfile\n"
        "sys.prefix = tempfile.mkdtemp()\n"
        "folder = str(c.switch_on())\n"
        "assert jax.config.jax_compilation_cache_dir == os.environ[c.WHERE] == folder\n"
        "assert jax.config.jax_persistent_cache_min_compile_time_secs == 0\n"
        "jax.jit(lambda x: x + 1)(2.0)\n"
        "print(len(os.listdir(folder)) > 1)\n"
    )
    variables = {name: value for name, value in os.environ.items() if name not in (WHERE, *THRESHOLDS)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_doctor_says_where_how_large_and_the_bound(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WHERE, raising=False)
    folder = switch_on(environment)
    assert folder is not None
    entry(folder, "k", 3 << 20, 0.0)
    line = next(line for line in doctor.examine() if "compiled code" in line)
    assert line.strip().startswith(f"compiled code is kept in {folder} ")
    assert line.endswith("1 files, 3.0 MiB of at most 256 MiB")


def test_doctor_names_the_setting_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHERE, "somewhere")
    assert any(f"kept in somewhere, as {WHERE} says" in line for line in doctor.examine())
