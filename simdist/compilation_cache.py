"""The compilation cache: what XLA has compiled, on disk for the next process. A first fit then takes a quarter of the time.

JAX keeps the cache; this file says where, and how much of it. The commands of the project switch it on (``make lab``,
``make demo``, ``make test``, ``python -m simdist run`` and ``lessons``) and what they start inherits it. ``import
simdist`` never does, and a setting of the user's own always wins.

The files lie in the environment that runs (``sys.prefix``): they belong to its versions, go away with it, and nobody
else writes there (a process that writes into such a cache can make its readers run any code). Each combination of versions has
a folder. Inside it, JAX's key names the computation, the options of the compiler, XLA's flags, the features of the
processor, and the folder's own path: what is moved elsewhere is compiled again.

JAX could bound the cache itself (``jax_compilation_cache_max_size``), but would then look at every file before it writes
one (44 ms with 2,000 files, 102 ms with 5,000), and a writer that is killed would end all later writing. So `tidy` bounds
it instead, whenever the cache is switched on, and takes out what a killed writer left half. Two processes may fill it at
once: JAX never replaces a file, and one that it reads too early or cannot read is compiled again, with a warning.

Standard library only, because the scripts that set up the project load this file alone.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import zlib
from collections.abc import Iterator, MutableMapping
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

__all__ = ["describe", "directory", "switch_on", "tidy"]

FOLDER = "simdist-compiled"
LARGEST_BYTES = 256 << 20
PATTERN = "*-cache"  # the names that JAX gives its files
CHECKED = ".checked"  # its date says up to when files were looked at
ZSTANDARD = b"\x28\xb5\x2f\xfd"
PACKAGES = ("jax", "jaxlib", "keras")
WHERE, ENABLED = "JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"
# Both are 0: everything is kept, however small it is and however fast it was compiled.
THRESHOLDS = ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES")


def directory() -> Path:
    """The folder of these versions in this environment, whether it exists or not."""
    return Path(sys.prefix, FOLDER, "-".join([f"python{platform.python_version()}", *map(_version, PACKAGES)]))


def switch_on(environment: MutableMapping[str, str] = os.environ) -> Path | None:
    """Keep what this process and those that it starts compile, unless the user has decided otherwise.

    Args:
        environment: the variables to set (default: those of this process; then JAX is configured, too, where it is loaded).

    Returns:
        The folder; None if the user has a setting of JAX's cache, if this Python runs in no virtual environment, or if
        the folder cannot be written.
    """
    jax = sys.modules.get("jax") if environment is os.environ else None
    if WHERE in environment or ENABLED in environment or (jax and jax.config.jax_compilation_cache_dir):
        return None
    if sys.prefix == sys.base_prefix:
        return None
    folder = directory()
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(exist_ok=True)
        tidy(folder)
    except OSError:
        return None
    environment[WHERE] = str(folder)
    if jax:
        jax.config.update(WHERE.lower(), str(folder))
    for name in THRESHOLDS:
        if name not in environment:
            environment[name] = "0"
            if jax:
                jax.config.update(name.lower(), 0)
    return folder


def tidy(folder: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Take out other versions' folders, files that are not whole, and what was not used for longest beyond the bound.

    Args:
        folder: the cache of the present versions.
        largest_bytes: how much may stay (default 256 MiB).

    Raises:
        OSError: the folder cannot be written.
    """
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    checked = folder / CHECKED
    since_s = checked.stat().st_mtime if checked.exists() else 0.0
    checked.touch()
    room = largest_bytes
    for entry, status in _by_last_use(folder):
        room -= status.st_size
        if room < 0 or (status.st_mtime >= since_s and not _is_whole(entry)):
            entry.unlink(missing_ok=True)


def describe() -> str:
    """One line: where the cache is, how large, and its bound."""
    where, ours = os.environ.get(WHERE), str(directory())
    if where not in (None, ours):
        return f"compiled code is kept in {where or 'no place'}, as {WHERE} says: its size is for you to bound"
    if where is None and ENABLED in os.environ:
        return f"compiled code is kept as {ENABLED}={os.environ[ENABLED]} says"
    if sys.prefix == sys.base_prefix:
        return f"compiled code is not kept: this Python runs in no virtual environment, and {WHERE} is not set"
    sizes = [status.st_size for _, status in _by_last_use(Path(ours))]
    bound = f"{len(sizes):,} files, {sum(sizes) / 2**20:.1f} MiB of at most {LARGEST_BYTES >> 20} MiB"
    return f"compiled code is kept in {ours} by make lab, demo and test: {bound}"


def _version(package: str) -> str:
    try:
        return f"{package}{metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no{package}"


def _by_last_use(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files, the one used last first; another process may take some away meanwhile."""
    found: list[tuple[float, Path, os.stat_result]] = []
    for entry in folder.glob(PATTERN):
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        found.append((max(status.st_atime, status.st_mtime), entry, status))
    for _, entry, status in sorted(found, reverse=True, key=lambda item: item[:2]):
        yield entry, status


def _is_whole(entry: Path) -> bool:
    """Whether a file can be unpacked to its end. JAX packs with zlib, or with Zstandard where it finds that."""
    try:
        packed = entry.read_bytes()
        if packed.startswith(ZSTANDARD):
            modules = [name for name in ("compression.zstd", "zstandard") if find_spec(name.partition(".")[0])]
            return all(import_module(name).decompress(packed) for name in modules)
        return bool(zlib.decompress(packed))
    except Exception:  # each module has errors of its own, and a file may be gone meanwhile
        return False
