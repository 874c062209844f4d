"""Runs the checks of ``make test`` and ``make check`` on two cores, and prints a table at the end.

Stages come in waves. Those of one wave need a core each and run two at a time, and what they print comes when they end;
a stage that is alone in its wave may use both cores, and prints as it goes. Every stage runs, whatever became of those
before it; the exit status says whether all of them passed. A stage that cannot run here (no Node, no Chromium, no
lessons yet) is skipped, and the table says why. Standard library only.

    python .ci/stages.py test | check [NAME ...]      names choose stages
"""

from __future__ import annotations

import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import environment

ROOT = environment.ROOT
FRONT_END = environment.FRONT_END
BUNDLE = FRONT_END / "simdist_widgets" / "static"
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
NOTEBOOKS = [*PYTEST, "-c", "tests/notebooks/nbval.ini", "--rootdir=.", *NBVAL]
# in the order of the folders, so that short doctests end the run; xdist would begin with files of many tests, and end with long ones
PARALLEL = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
BROWSER = "browser and not exhaustive"
# Their tests have processes of their own: one that runs all tests grows to four gigabytes, mostly of compiled code.
# The folders with the longest files come first, so that no worker has such a file left when the other ends.
GROUPS = {
    "tests of training": (
        *(f"tests/{name}" for name in ("strategies", "docs", "golden", "training", "estimator")),
        # of the folders below: what compares no bits
        *(f"tests/properties/test_{name}.py" for name in ("replayed_rounds", "replayed_updates", "sparse_optimizers", "sparse_reads")),
        *(f"tests/program/test_{name}.py" for name in ("captures", "dot_algorithms", "effects", "grouped_convolutions", "reads_in_jit")),
        "tests/collectives/test_compression.py",
    ),
    "tests of bits": (*(f"tests/{name}" for name in ("properties", "ledger", "program", "collectives")), "tests/training/test_copies.py"),
}
# Where nothing is compiled yet, XLA takes half of the time of the tests; with these options it takes a sixth of that. The numbers are
# the same but for last bits; tests that compare bits of plans, loops and kernels have what users have. (With fused multiply-adds, which
# AVX has not, a step that is compiled without any optimisation has other last bits in a replay than by itself.)
COMPILED_AS_FOR_USERS = "tests of bits"
IS_X86 = platform.machine() in ("x86_64", "AMD64")
LEVEL = "--xla_backend_optimization_level=0 --xla_cpu_max_isa=AVX" if IS_X86 else "--xla_backend_optimization_level=1"
QUICKLY_COMPILED = f"{LEVEL} --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
LESSONS_IN_BROWSER = "tests/browser/test_lab.py"
EACH_WIDGET = ROOT / "tests" / "browser" / "each_widget.py"  # names the lessons that run there
NO_BYTECODE, BYTECODE = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
HOUSE_RULES = [f"tests/test_{name}.py" for name in ("words", "circles", "layers", "project")]
# pytest's closing line, between its rows of "=" or, with -q, without them
CLOSING = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+ in [\d.]+s(?: \([\d:]+\))?) ?=*\r?$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """One command line, with the folder and the environment that it runs in."""

    line: list[str]
    cwd: Path = ROOT
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One row of the table: some commands that must all succeed, or a reason why they cannot run."""

    name: str
    commands: Callable[[], Iterable[Command]]
    cannot_run: Callable[[], str | None] = lambda: None


@dataclass
class Outcome:
    """What became of a stage: ``passed``, ``failed`` or ``skipped``, after how many seconds, and a remark."""

    name: str
    result: str
    seconds: float = 0.0
    remark: str = ""


def tool(name: str, *arguments: str) -> Stage:
    """A stage of one command out of ``.venv``."""
    return Stage(name, lambda: [Command([str(Path(sys.executable).with_name(arguments[0])), *arguments[1:]])])


def python_tests(group: str | None = None) -> list[Command]:
    """The tests of a group; of none: all tests that no other stage has."""
    folders = GROUPS.get(group or "", ())
    env = {} if group == COMPILED_AS_FOR_USERS else quick_compilation()
    others = ["tests/browser", *(path for name, paths in GROUPS.items() if name != group for path in paths)]
    chosen = [*folders, *(f"--ignore={path}" for path in others if not folders or any(path.startswith(f"{folder}/") for folder in folders))]
    # nbval is for notebooks, and its imports cost each process two seconds
    return [Command([*PYTEST, "-p", "no:nbval", *PARALLEL, "-m", "not browser and not exhaustive", "--durations=5", *chosen], env=env)]


@cache
def quick_compilation() -> dict[str, str]:
    """The variable that makes XLA compile quickly, with those of its options that XLA knows here.

    Empty where the user has set it, and where JAX does not start with it for another reason.
    """
    if "XLA_FLAGS" in os.environ:
        return {}
    ask = [sys.executable, "-c", "import jax; jax.devices()"]
    asked = subprocess.run(ask, env={**os.environ, "XLA_FLAGS": QUICKLY_COMPILED}, capture_output=True, text=True)
    unknown = asked.stderr.split() if asked.returncode else ()  # it names each of them, and ends
    options = QUICKLY_COMPILED.split()
    known = [option for option in options if option not in unknown]
    return {"XLA_FLAGS": " ".join(known)} if known and (known != options or not asked.returncode) else {}


def house_rules() -> list[Command]:
    """The tests that read the sources only: words, circles, layers. They are among the tests too; alone they take seconds."""
    return [Command([*PYTEST, "-p", "no:nbval", *HOUSE_RULES])]


def browser_tests() -> list[Command]:
    return [Command([*PYTEST, "-m", BROWSER, "tests/browser", f"--ignore={LESSONS_IN_BROWSER}"])]


def lessons_in_browser() -> list[Command]:
    return [Command([*PYTEST, "-m", BROWSER, LESSONS_IN_BROWSER])]


def notebook_tests(beside_browser: bool) -> list[Command]:
    """The lessons under nbval; beside those in a browser there is one core for them, and those need not be compared twice."""
    compared_there = runpy.run_path(str(EACH_WIDGET))["EACH_WIDGET"]
    options = [f"--ignore-glob=lessons/{number}_*.ipynb" for number in compared_there] if beside_browser else PARALLEL
    return [Command([*NOTEBOOKS, *options, "lessons"], env={"SIMDIST_LESSONS_AUTOMATIC": "1"})]  # no student is there who predicts


def front_end_checks() -> list[Command]:
    found = environment.npm()
    assert found is not None, "cannot_run has asked already"
    npm, env = found
    return [Command([*npm, "run", "--silent", script], FRONT_END, env) for script in ("check", "test", "build")]


def no_lessons() -> str | None:
    return None if any((ROOT / "lessons").glob("*.ipynb")) else "no lessons yet"


def no_browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return None if any(map(shutil.which, names)) else "no Chromium on this machine"


def no_front_end() -> str | None:
    if not (FRONT_END / "package.json").exists():
        return "no widgets/package.json yet"
    if environment.npm() is None:
        return f"no Node {environment.OLDEST_NODE} or newer on this machine"
    return None


TYPES = tool("types", "pyright")
STATIC = [
    tool("format", "ruff", "format", "--check", "--output-format=concise", "."),
    tool("lint", "ruff", "check", "--output-format=concise", "."),
    tool("spelling", "codespell"),
    tool("layers", "lint-imports"),
    TYPES,
]
RULES = [Stage("house rules", house_rules)]
FRONT = [Stage("front end", front_end_checks, no_front_end)]


def lesson_stages(names: Sequence[str]) -> list[Stage]:
    """What runs after the front end, which writes the bundle that lessons load; ``names`` are those that were asked for, if any."""
    in_browser = Stage("lessons in a browser", lessons_in_browser, no_browser)
    beside_browser = no_browser() is None and (not names or in_browser.name in names)
    notebooks = Stage("notebooks", partial(notebook_tests, beside_browser), no_lessons)  # the longest begins
    return [notebooks, TYPES, Stage("browser", browser_tests, no_browser), in_browser]


# the Python tests come last, so that a log ends with what matters most
TESTS = [*(Stage(name, partial(python_tests, name)) for name in GROUPS), Stage("tests", python_tests)]
CORES = 2


def test_environment() -> dict[str, str]:
    """Variables that make a run the same on every machine (the CPU, Keras on JAX, no colours), and a fast one."""
    fixed = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1", "CI": "true"}
    # which lines of Python an operation comes from, JAX need not write down: it takes a quarter of the time of a first step
    fast = {"JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS": "0", "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0"}
    variables = {"JAX_PLATFORMS": "cpu", **fast, **os.environ, **fixed, "JUPYTER_PLATFORM_DIRS": "1"}
    environment.compilation_cache()["switch_on"](variables)
    return variables


Show = Callable[[bytes], None]


def show_at_once(output: bytes) -> None:
    """Passes output on as it comes."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), output)


def run_wave(stages: Sequence[Stage]) -> list[Outcome]:
    """Runs stages side by side, one for each core; each prints when it ends, or as it goes where it is alone."""
    if len(stages) < 2:
        return [run(stage) for stage in stages]
    print(f"\n==> side by side: {', '.join(stage.name for stage in stages)}", flush=True)

    def run_quietly(stage: Stage) -> Outcome:
        shown: list[bytes] = []
        outcome = run(stage, shown.append)
        show_at_once(b"".join(shown))
        return outcome

    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(run_quietly, stages))


def run(stage: Stage, show: Show = show_at_once) -> Outcome:
    """Runs one stage, with a header before it, and says what became of it."""
    reason = stage.cannot_run()
    show(f"\n==> {stage.name}{f': skipped, {reason}' if reason else ''}\n".encode())
    if reason:
        return Outcome(stage.name, "skipped", remark=reason)
    started = time.monotonic()
    outcome = Outcome(stage.name, "passed")
    with unchanged_bundle(outcome) if stage.name == "front end" else no_guard():
        for command in stage.commands():
            status, remark = stream(command, show)
            outcome.remark = remark or outcome.remark
            if status:
                outcome.result = "failed"
                outcome.remark = outcome.remark or f"{' '.join(command.line[-2:])}: exit status {status}"
                break
    outcome.seconds = time.monotonic() - started
    show(f"==> {stage.name}: {outcome.result} after {outcome.seconds:.1f} s\n".encode())
    return outcome


def stream(command: Command, show: Show) -> tuple[int, str]:
    """Runs a command and passes its output on as it comes.

    Returns:
        Its exit status, and pytest's closing line if there was one.
    """
    try:
        process = subprocess.Popen(
            command.line,
            cwd=command.cwd,
            env={**test_environment(), **command.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return 127, f"{command.line[0]}: {error.strerror}"
    tail = b""
    with process:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 65536):
            show(chunk)
            tail = (tail + chunk)[-4000:]
    closing = CLOSING.findall(tail.decode(errors="replace"))
    return process.returncode, closing[-1] if closing else ""


@contextmanager
def kept_bytecode() -> Iterator[None]:
    """Lets the processes of this run share the bytecode of modules where PYTHONDONTWRITEBYTECODE keeps it from the source folders.

    A kernel imports three thousand modules: to compile them takes more than half of the time of its start.
    """
    forbidden = os.environ.get(NO_BYTECODE)
    if not forbidden or os.environ.get(BYTECODE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="simdist-bytecode-", ignore_cleanup_errors=True) as folder:
        del os.environ[NO_BYTECODE]
        os.environ[BYTECODE] = folder
        try:
            yield
        finally:
            del os.environ[BYTECODE]
            os.environ[NO_BYTECODE] = forbidden


@contextmanager
def deleted_temporary_files() -> Iterator[None]:
    """Deletes at the end what examples and tests have left among the temporary files: a run leaves hundreds of folders."""
    with tempfile.TemporaryDirectory(prefix="simdist-tests-", ignore_cleanup_errors=True) as folder:
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


@contextmanager
def no_guard() -> Iterator[None]:
    yield


@contextmanager
def unchanged_bundle(outcome: Outcome) -> Iterator[None]:
    """Fails the outcome if the commands inside changed the committed bundle; leaves the fresh one in place."""
    before = bundle()
    yield
    after = bundle()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        outcome.result = "failed"
        outcome.remark = f"a fresh build differs from what is stored: {', '.join(changed)}; commit the new one"


def bundle() -> dict[str, bytes]:
    """The front end as it is stored: file names and contents."""
    return {str(path.relative_to(BUNDLE)): path.read_bytes() for path in BUNDLE.rglob("*") if path.is_file()}


def print_table(outcomes: list[Outcome], seconds: float) -> None:
    """One line a stage, and how long all of them took."""
    print("\n==> summary")
    for outcome in outcomes:
        row = f"    {outcome.name:<20} {outcome.result:<8} {outcome.seconds:7.1f} s   {outcome.remark}"
        print(row.rstrip())
    print(f"    {'all':<20} {verdict(outcomes):<8} {seconds:7.1f} s", flush=True)


def verdict(outcomes: list[Outcome]) -> str:
    """``failed`` if any stage did, else ``passed``."""
    return "failed" if any(outcome.result == "failed" for outcome in outcomes) else "passed"


def main(arguments: list[str]) -> int:
    """Runs the stages of a target, or those of them that are named; returns the exit status."""
    target, *names = arguments or ["test"]
    quick = [stage for stage in STATIC if stage is not TYPES]
    waves = [STATIC + RULES] if target == "check" else [quick + FRONT, lesson_stages(names), *([stage] for stage in TESTS)]
    stages = [stage for wave in waves for stage in wave]
    unknown = set(names) - {stage.name for stage in stages}
    if target not in ("check", "test") or unknown:
        print(f"Unknown: {', '.join(unknown) or target}. Known: {', '.join(stage.name for stage in stages)}.")
        return 2
    os.chdir(ROOT)
    started = time.monotonic()
    chosen = [[stage for stage in wave if not names or stage.name in names] for wave in waves]
    with deleted_temporary_files(), kept_bytecode():
        outcomes = [outcome for wave in chosen for outcome in run_wave(wave)]
    print_table(outcomes, time.monotonic() - started)
    return 1 if verdict(outcomes) == "failed" else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
