"""The command line: ``python -m simdist run | lessons | bench | doctor | chaos``."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from simdist import compilation_cache
from simdist.arguments import takes
from simdist.doctor import examine, missing
from simdist.errors import SimdistError

__all__ = ["main"]

# As a shell counts: 128 and the number of the signal.
INTERRUPTED = 130
READER_GONE = 141


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status."""
    os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND") or "jax"
    words, of_script = _without_arguments_of_script(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m simdist", description="A training cluster in one Python process.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_run(commands)
    commands.add_parser(
        "lessons",
        help="open copies of the lessons in JupyterLab, with its own options after the command",
        epilog="--folder FOLDER says where the copies are (default my_lessons beside the lessons' folder); all else goes to JupyterLab.",
    )
    bench = commands.add_parser("bench", help="measure, as ratios in one run")
    bench.add_argument("names", nargs="*", help="which benchmarks, or with --base which lines (default: all)")
    bench.add_argument("--base", metavar="REV", help="measure against another revision of this repository, in turns")
    bench.add_argument("--rounds", type=int, help="with --base: processes for each line and tree, of which the least counts (default 10)")
    commands.add_parser("doctor", help="say what was found here and what will be used")
    _add_chaos(commands)
    options, options_of_lab = parser.parse_known_args(words)
    if options_of_lab and options.command != "lessons":
        parser.error(f"unknown: {' '.join(options_of_lab)}; see python -m simdist {options.command} --help")
    options.of_lab, options.of_script = options_of_lab, of_script
    try:
        status = int({"run": _run, "lessons": _lessons, "bench": _bench, "doctor": _doctor, "chaos": _chaos}[options.command](options) or 0)
        if not getattr(sys.stdout, "closed", True):  # by the program, or by who has started this: then there is none
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        if options.command == "run":
            raise  # perhaps a pipe of the program's
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that what is left to print does not fail at the end
        return READER_GONE
    except SimdistError as error:
        print(f"{type(error).__name__}{_where(error, getattr(options, 'program', None))}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"Interrupted{_where(error, getattr(options, 'program', None))}.", file=sys.stderr)
        return INTERRUPTED


def _where(error: BaseException, program: Path | None) -> str:
    """Where a program stood when it was interrupted or failed, if it was running."""
    numbers = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(program)]
    return f" in line {numbers[-1]} of {program}" if numbers else ""


def _without_arguments_of_script(words: list[str]) -> tuple[list[str], list[str] | None]:
    """The words of the command, and those after ``--``, which are the script's; None where there is no ``--``."""
    if words[:1] != ["run"] or "--" not in words:
        return words, None
    end = words.index("--")
    return words[:end], words[end + 1 :]


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a program file that defines main(seed=..., crash=...); with --cluster, run a script on every task of a cluster",
        epilog="With --cluster, words after -- are the script's arguments.",
    )
    run.add_argument("program", type=Path, help="a Python file")
    run.add_argument("--cluster", type=Path, metavar="FILE", help="a TOML file that describes the cluster and its faults")
    run.add_argument("--seed", type=int, help="seed of all random streams (default 0, or the file's)")
    run.add_argument("--no-crash", action="store_true", help="leave out the faults of the program, or of the file")


def _run(options: argparse.Namespace) -> int:
    if options.program.is_dir():
        print(f"{options.program} is a folder. Give the path of a Python file, such as {options.program / 'train.py'}.", file=sys.stderr)
        return 2
    if not options.program.is_file():
        print(f"There is no program {options.program}. Give the path of a Python file, such as examples/digits_ps.py.", file=sys.stderr)
        return 2
    if options.program.suffix not in ("", ".py"):
        advice = " A notebook runs in JupyterLab; a file that describes a cluster goes behind --cluster." if options.cluster is None else ""
        print(f"{options.program} is no Python file. Give the path of one, such as examples/digits_ps.py.{advice}", file=sys.stderr)
        return 2
    compilation_cache.switch_on()
    if options.cluster is not None:
        from simdist.launcher import run_command

        return run_command(options.program, options.of_script or [], options.cluster, options.seed, not options.no_crash)
    if options.of_script is not None:
        print("Words after -- are the arguments of a script on a cluster: they need --cluster FILE.", file=sys.stderr)
        return 2
    try:
        compile(options.program.read_bytes(), str(options.program), "exec", dont_inherit=True)
    except OSError as error:
        print(f"{options.program} cannot be read: {error.strerror}.", file=sys.stderr)
        return 2
    except (SyntaxError, ValueError) as error:
        print(f"{options.program} is not Python: {error}", file=sys.stderr)
        return 2
    with _as_script(options.program):
        return _run_main(options)


@contextmanager
def _as_script(program: Path) -> Iterator[None]:
    """Inside, modules beside a program are found and ``sys.argv`` is its own, as where Python runs it."""
    folder, words = str(program.resolve().parent), sys.argv
    sys.path.insert(0, folder)
    sys.argv = [str(program)]
    try:
        yield
    finally:
        sys.argv = words
        with suppress(ValueError):
            sys.path.remove(folder)


def _run_main(options: argparse.Namespace) -> int:
    names: dict[str, Any] = runpy.run_path(str(options.program))
    if not takes(names.get("main"), seed=0, crash=True):
        print(
            f"{options.program} defines no main(seed=..., crash=...); that is what `run` calls. A script that runs on every task of a "
            "cluster needs --cluster FILE.",
            file=sys.stderr,
        )
        return 2
    names["main"](seed=options.seed or 0, crash=not options.no_crash)
    return 0


def _lessons(options: argparse.Namespace) -> int:
    opener = Path(__file__).resolve().parent.parent / "lessons" / "open_lab.py"
    if importlib.util.find_spec("jupyterlab") is None or not opener.is_file():
        print("The lessons need JupyterLab and a checkout of the project: run `make lab` there.", file=sys.stderr)
        return 2
    return subprocess.call([sys.executable, str(opener), *options.of_lab])


def _bench(options: argparse.Namespace) -> int:
    folder = Path(__file__).resolve().parent.parent / "benchmarks"
    against = folder / "_against_base.py"
    if options.base is not None and against.is_file():
        rounds = [] if options.rounds is None else [f"--rounds={options.rounds}"]
        return subprocess.call([sys.executable, str(against), *rounds, "--", options.base, *options.names])
    if options.rounds is not None and options.base is None:
        print("--rounds goes with --base REV; without it a benchmark decides itself how often it measures.", file=sys.stderr)
        return 2
    known = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    unknown = [name for name in options.names if name not in known]
    if unknown or not known:
        print(f"No benchmark {', '.join(unknown) or 'at all'}; there are: {', '.join(known) or 'none (not a checkout)'}.", file=sys.stderr)
        return 2
    failed = [name for name in options.names or known if subprocess.call([sys.executable, str(known[name])])]
    if failed:
        print(f"Did not run here: {', '.join(failed)} (see the message above).", file=sys.stderr)
    # Without names, one that needs something that is not installed is no failure.
    return 1 if failed and options.names else 0


def _doctor(options: argparse.Namespace) -> int:
    for line in examine():
        print(line)
    return 0 if not missing() else 1


def _add_chaos(commands: Any) -> None:
    chaos = commands.add_parser(
        "chaos", help="search for failures: random clusters, workloads and faults, and what must hold in all of them"
    )
    count, seconds = partial(_number, int, least=0), partial(_number, float, least=0)
    chaos.add_argument("--scenarios", type=partial(_number, int, least=1), default=500, help="how many (default 500)")
    chaos.add_argument("--seed", type=int, default=0, help="of everything (default 0)")
    chaos.add_argument("--first", type=count, default=0, help="number of the first scenario (default 0)")
    chaos.add_argument("--workload", help="only this one (default: all)")
    share = partial(_number, float, least=0, most=1)
    chaos.add_argument("--timing-only", type=share, default=0.875, metavar="SHARE", help="of scenarios without numbers (default 0.875)")
    chaos.add_argument(
        "--time-limit", type=partial(_number, float, least=1), default=90.0, metavar="SECONDS", help="for one scenario (default 90)"
    )
    chaos.add_argument(
        "--shrink", type=seconds, default=20.0, metavar="SECONDS", help="for making each failure smaller; 0: not at all (default 20)"
    )


def _number(kind: Callable[[str], float], text: str, least: float, most: float = math.inf) -> float:
    """A number of the command line, from `least` to `most`."""
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most or value == math.inf:
        what = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"{text} is not {what} from {least}{f' to {most:g}' if most < math.inf else ' on'}")
    return value


def _chaos(options: argparse.Namespace) -> int:
    from simdist.chaos.campaign import Campaign, reproductions
    from simdist.chaos.workloads import WORKLOADS

    if options.workload is not None and options.workload not in WORKLOADS:
        print(f"No workload {options.workload}; there are: {', '.join(WORKLOADS)}.", file=sys.stderr)
        return 2
    compilation_cache.switch_on()  # the children that examine scenarios inherit it
    campaign = Campaign(options.seed, options.scenarios, options.first, options.workload, options.timing_only, options.time_limit)
    report = campaign.run(tell=lambda line: print(line, flush=True))
    for line in report.lines():
        print(line)
    for source in reproductions(report, options.shrink):
        print(f"\n{source}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
