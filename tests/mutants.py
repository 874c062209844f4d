"""Change lines of the engine's code wrongly, one at a time, and see which of them the tests of the same package notice.

Use: ``python tests/mutants.py --seed 11 --lines 40 [--only FILE:LINE ...]``. The seed picks lines of `PACKAGES` and one mutation for each
(`mutations.py`). Each mutant runs in a copy of the tree, never in the tree itself, with the doctests of its module and the quick tests of
``tests/<package>``, the nearest first, until one fails. A mutant that hangs is stopped after a while, and counts as killed.

The status is 1 if any mutant survived. One that survives shows a test that is missing, or changes nothing that can be observed: which of
the two it is, a reader has to judge.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutations import Mutation, mutations

__all__ = ["Mutant", "Verdict", "main", "picked", "tried"]

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("simdist/runtime", "simdist/variables", "simdist/coordinator")
MEMORY_BYTES = 6 << 30  # a mutant must not take what the machine has


@dataclass(frozen=True)
class Mutant:
    """A file of the tree, by its path, and what is changed in it."""

    file: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.file}:{self.mutation.line}"


@dataclass(frozen=True)
class Verdict:
    """Whether the tests noticed a mutant, and what noticed it."""

    is_killed: bool
    by: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of mutants; 1 if any survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which lines and mutations (default 0)")
    parser.add_argument("--lines", type=int, default=40, metavar="N", help="how many (default 40)")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE:LINE", help="of these, the ones here alone")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in picked(ROOT, PACKAGES, options.seed, options.lines) if str(mutant) in options.only or not options.only]
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(ROOT, Path(folder))
        limits_s = {package: 3.0 * healthy_s(copy, package) + 30.0 for package in {package_of(mutant.file) for mutant in mutants}}
        for mutant in mutants:
            verdict = tried(copy, mutant, limits_s[package_of(mutant.file)])
            killed += verdict.is_killed
            print(
                f"{mutant!s:<56} {'killed by' if verdict.is_killed else 'SURVIVED':<9} {verdict.by}\n    {mutant.mutation.words}",
                flush=True,
            )
    print(f"Seed {options.seed}: {killed} of {len(mutants)} mutants were killed.")
    return 0 if killed == len(mutants) else 1


def picked(root: Path, packages: Sequence[str], seed: int, lines: int) -> list[Mutant]:
    """As many mutants, each of another line of these packages, in the order of the files."""
    dice = random.Random(seed)
    by_line: dict[tuple[str, int], list[Mutation]] = {}
    for path in sorted(path for package in packages for path in (root / package).rglob("*.py")):
        file = path.relative_to(root).as_posix()
        for mutation in mutations(path.read_text(encoding="utf-8")):
            by_line.setdefault((file, mutation.line), []).append(mutation)
    return [Mutant(key[0], dice.choice(by_line[key])) for key in sorted(dice.sample(sorted(by_line), lines))]


# -- in a copy of the tree ---------------------------------------------------------------------------------------------


def copied(root: Path, folder: Path) -> Path:
    """Copy what git knows of a tree, or would, into a folder."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        if name and (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((root / name).read_bytes())
    return folder


def tried(copy: Path, mutant: Mutant, limit_s: float) -> Verdict:
    """Run the tests of a mutant's package with the mutant in a copy of the tree, which is healthy before and after."""
    path = copy / mutant.file
    healthy = path.read_bytes()
    _write(path, mutant.mutation.source.encode())
    try:
        return _judged(copy, [mutant.file, *nearest_tests(copy, mutant.file)], limit_s)
    finally:
        _write(path, healthy)


def healthy_s(copy: Path, package: str) -> float:
    """How long the tests of a package take without a mutant; if they fail then, their failures would mean nothing."""
    start = time.monotonic()
    verdict = _judged(copy, [package, *nearest_tests(copy, f"{package}/__init__.py")], None)
    if verdict.is_killed:
        sys.exit(f"The tests of {package} fail without a mutant: {verdict.by}")
    return time.monotonic() - start


def _write(path: Path, content: bytes) -> None:
    """Write a module, and remove its bytecode: within one second, a file of the same length would pass for the old one."""
    path.write_bytes(content)
    for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        old.unlink()


def _judged(copy: Path, paths: Sequence[str], limit_s: float | None) -> Verdict:
    search = os.pathsep.join(str(copy / name) for name in ("", "widgets", "tests"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *paths]
    with subprocess.Popen(
        command,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": search, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # to load plugins takes seconds
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and what the tests have started
            return Verdict(True, f"the limit of {limit_s:.0f} s")
    if process.returncode == 0:
        return Verdict(False, "")
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
    return Verdict(True, failed[1] if failed else f"status {process.returncode}: {output.strip()[-200:]}")


# -- the tests of a module ---------------------------------------------------------------------------------------------


def package_of(file: str) -> str:
    """``simdist/runtime`` of a file somewhere below it."""
    return "/".join(file.split("/")[:2])


def nearest_tests(root: Path, file: str) -> list[str]:
    """The files of tests of a module's package: first those with its name, then those that import it, then those beside them."""
    module = Path(file)
    folder = root / "tests" / module.parent.relative_to("simdist")
    dotted = ".".join(module.with_suffix("").parts)

    def distance(path: Path) -> tuple[int, str]:
        ranks: Iterator[bool] = iter(
            (path.stem == f"test_{module.stem}", dotted in path.read_text(encoding="utf-8"), path.parent == folder)
        )
        return next((number for number, is_near in enumerate(ranks) if is_near), 3), path.as_posix()

    tests = (root / "tests" / package_of(file).removeprefix("simdist/")).rglob("test_*.py")
    return [path.relative_to(root).as_posix() for path in sorted(tests, key=distance)]


if __name__ == "__main__":
    sys.exit(main())
