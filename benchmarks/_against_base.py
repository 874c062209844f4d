"""The workloads on this tree against another revision of the repository: processor's seconds, in turns, the least of many rounds.

The other revision, the base, is checked out into a temporary folder that is gone afterwards. Base and head (this tree as it lies
here, with what is not committed) take turns, each round in a process of its own; both run this tree's workloads, which use the
public API only. What counts is the time of the processor in the measured part, not that of the clock on the wall, so that other
programs on the machine disturb less. A first round of each is not measured: it fills the compilation cache, which both share.

Run: ``python -m simdist bench --base REV [lines]``. The exit status is 1 if the head is slower by more than 5 % anywhere.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from _workloads import Workload, lines

from simdist.compilation_cache import ENABLED, THRESHOLDS, WHERE

HEAD = Path(__file__).resolve().parents[1]
LEAST = 0.95  # of base over head; below it the head is slower


class CannotRun(Exception):
    """A tree does not run a workload; says why."""


class Measured(NamedTuple):
    """The least seconds of a line."""

    base_s: float
    head_s: float

    @property
    def ratio(self) -> float:
        """Above 1: the head is faster."""
        return self.base_s / self.head_s


def git(*words: str) -> str:
    """Run git in this checkout; no hook of it.

    Raises:
        CannotRun: there is no git, or it says no.
    """
    try:
        command = ["git", "-C", str(HEAD), "-c", "core.hooksPath=/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except FileNotFoundError:
        raise CannotRun("git is not installed, which finds the other revision.") from None
    except subprocess.CalledProcessError as error:
        raise CannotRun(f"git {words[0]}: {error.stderr.strip()}") from None


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A folder with a revision, which is removed whatever happens, also when this process is told to end."""
    commit = git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory(prefix="simdist-base-") as folder:
            tree = Path(folder, "base")
            try:
                git("worktree", "add", "--detach", str(tree), commit)
                yield tree
            finally:
                subprocess.run(["git", "-C", str(HEAD), "worktree", "remove", "--force", str(tree)], capture_output=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def in_a_process(tree: Path, cache: Path, name: str, steps: int) -> float:
    """The processor's seconds of one round of a line on one tree.

    Raises:
        CannotRun: it fails there, or the tree is not the one that was imported.
    """
    cached = {WHERE: str(cache), ENABLED: "true", **dict.fromkeys(THRESHOLDS, "0")}
    own = {"KERAS_BACKEND": "jax", "PYTHONHASHSEED": "0", **os.environ, **cached, "PYTHONPATH": str(tree)}
    command = [sys.executable, str(HEAD / "benchmarks" / "_workloads.py"), name, str(steps)]
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    if done.returncode:
        raise CannotRun((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if Path(found["package"]) != (tree / "simdist").resolve():
        raise CannotRun(f"it imported {found['package']}, not the package in {tree}")
    return found["cpu_s"]


def measured(base: Path, cache: Path, name: str, steps: int, rounds: int) -> Measured:
    """Base and head in turns, after a round of each that does not count."""
    taken = [(in_a_process(base, cache, name, steps), in_a_process(HEAD, cache, name, steps)) for _ in range(rounds + 1)]
    base_s, head_s = (min(side) for side in zip(*taken[1:], strict=True))
    return Measured(base_s, head_s)


def print_line(title: str, found: Measured) -> None:
    """One line of the table."""
    slower = "" if found.ratio >= LEAST else "   slower"
    print(f"{title:<46} {found.base_s:>9.3f} {found.head_s:>9.3f} {found.ratio:>10.2f}{slower}", flush=True)


def compare(base: Path, cache: Path, chosen: dict[str, Workload], rounds: int, quick: bool) -> int:
    """Print the table; return 1 if a line is slower, or fails on the head."""
    ratios, failed = list[float](), False
    print(f"{'seconds of the processor, least of ' + str(rounds):<46} {'base':>9} {'head':>9} {'base/head':>10}", flush=True)
    for name, line in chosen.items():
        steps = max(1, line.steps // 100) if quick else line.steps
        try:
            found = measured(base, cache, name, steps, rounds)
        except CannotRun as error:
            reason, alone = str(error), runs(HEAD, cache, name, steps)
            failed = failed or not alone
            print(f"{line.title:<46} {'skipped: the base' if alone else 'failed: the head'} cannot run it ({reason})", flush=True)
            continue
        ratios.append(found.ratio)
        print_line(line.title, found)
    if ratios:
        print(f"{'geometric mean':<46} {'':>9} {'':>9} {math.exp(sum(map(math.log, ratios)) / len(ratios)):>10.2f}")
    return int(failed or not ratios or min(ratios) < LEAST)


def runs(tree: Path, cache: Path, name: str, steps: int) -> bool:
    """Whether a tree runs a line at all."""
    try:
        in_a_process(tree, cache, name, steps)
    except CannotRun:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Compare this tree with a revision."""
    table = lines()
    parser = argparse.ArgumentParser(description="This tree against another revision of the repository.")
    parser.add_argument("base", help="the revision: a branch, a tag, a commit")
    parser.add_argument("names", nargs="*", help=f"lines, by their first letters (default: all): {', '.join(table)}")
    parser.add_argument("--rounds", type=int, default=10, help="processes for each line and tree (default 10)")
    parser.add_argument("--quick", action="store_true", help="a small sample: a hundredth of the steps")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give 1 or more")
    wanted = set[str]()
    for name in options.names or [""]:
        found = {name} if name in table else {line for line in table if line.startswith(name)}
        if not found:
            parser.error(f"no line begins with {name}; there are: {', '.join(table)}")
        wanted |= found
    chosen = {name: line for name, line in table.items() if name in wanted}
    try:
        with checked_out(options.base) as base, tempfile.TemporaryDirectory(prefix="simdist-cache-") as cache:
            return compare(base, Path(cache), chosen, options.rounds, options.quick)
    except CannotRun as error:
        print(f"Cannot compare with {options.base}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
