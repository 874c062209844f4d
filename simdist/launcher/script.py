"""A script as the main of every task of a cluster, in one process.

Each task executes the script in a module of its own, which is ``__main__`` while code of the task runs; so is its ``sys.argv``. TF_CONFIG
and the prefix of printed lines are those of every launched main. Modules that the script imports are those of the process: they are
imported once, and what they keep is shared among the tasks.

Invariant: when `run_script` returns, ``__main__``, ``sys.argv`` and ``sys.path`` are as before.
"""

from __future__ import annotations

import builtins
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType

from simdist.cluster import TFConfigClusterResolver
from simdist.errors import AbortedError, DeadlineExceededError, InvalidArgumentError, NotFoundError, UnavailableError
from simdist.launcher.cluster_file import ClusterFile
from simdist.launcher.outcome import Outcome
from simdist.process_state import active_context
from simdist.runtime.launched_main import launched_main

__all__ = ["Script", "run_script"]


class Script:
    """A Python file, and the words that it finds in ``sys.argv``.

    Args:
        path: of the file.
        arguments: the words after its name.

    Attributes:
        failures: the error with which the main of a task has ended last, by task; not those of a crash.

    Raises:
        NotFoundError: there is no such file.
        InvalidArgumentError: it is not Python.
    """

    def __init__(self, path: Path, arguments: Sequence[str] = ()) -> None:
        self.path = path
        self.argv = [str(path), *arguments]
        self.failures: dict[str, BaseException] = {}
        self._code = _compiled(path)

    def main(self) -> None:
        """Execute it as the program of the task that runs now."""
        launched = launched_main.get()
        assert launched is not None
        self.failures.pop(launched.task, None)
        module = ModuleType("__main__")
        module.__file__ = str(self.path)
        module.__dict__["__builtins__"] = builtins
        process = active_context().process
        assert process is not None, "a launched main is a process"
        process.become_program(module, self.argv)
        try:
            exec(self._code, module.__dict__)
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and error.code in (None, 0):
                return
            if isinstance(error, SystemExit) and _is_of_argparse(error):
                # To start it again, as after any other exit, would change nothing.
                self.failures[launched.task] = refused = InvalidArgumentError(
                    f"{self.path.name} refuses its arguments: {shlex.join(self.argv[1:])}. What it says about them stands above."
                )
                raise refused.with_traceback(error.__traceback__) from None
            self.failures[launched.task] = error
            raise

    @contextmanager
    def importing_beside_it(self) -> Iterator[None]:
        """Find modules in the folder of the script first, as Python does for a script."""
        folder = str(self.path.resolve().parent)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            with suppress(ValueError):
                sys.path.remove(folder)


def _is_of_argparse(error: SystemExit) -> bool:
    """Whether it was argparse that ended the program, which has printed why."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__") == "argparse"


def _compiled(path: Path) -> CodeType:
    try:
        source = path.read_bytes()
    except IsADirectoryError:
        raise NotFoundError(f"{path} is a folder. Give the path of a Python file, such as {path / 'train.py'}.") from None
    except FileNotFoundError:
        raise NotFoundError(
            f"There is no program {path}. Give the path of a Python file, such as examples/multi_worker/train.py."
        ) from None
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}. Give the path of a Python file.") from error
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{path} is not Python: {error}") from error


def run_script(script: Script, file: ClusterFile, seed: int | None = None, with_faults: bool = True) -> Outcome:
    """Run a script on every task of the cluster that a file describes, until the mains have ended that have an end of their own.

    Servers (`Server.join`) end with the last of the others. An evaluator may go on for the file's grace.

    Args:
        script: what every task runs.
        file: the cluster.
        seed: in place of the file's.
        with_faults: False: the file's faults are left out.

    Returns:
        What has become of it. An error of a main is in it, and is not raised.

    Raises:
        InvalidArgumentError: the file describes no cluster that there can be.
    """
    cluster = file.cluster(seed, with_faults)
    with script.importing_beside_it(), _without_warnings_of_faults(), cluster:
        outcome = Outcome(cluster, script.path, script.failures)
        try:
            _run(script, file, outcome)
        except Exception as error:
            outcome.error = error
        outcome.take_lines()
        outcome.write(file.trace, file.summary)
    return outcome


def _run(script: Script, file: ClusterFile, outcome: Outcome) -> None:
    """Wait for all mains but the evaluator's; then the evaluator may go on for a while."""
    cluster = outcome.cluster
    jobs = [job for job in cluster.spec.jobs if cluster.spec.num_tasks(job)]
    is_beside = "evaluator" in jobs and len(jobs) > 1
    evaluated = cluster.engine.promise()

    def main() -> None:
        if not (is_beside and _is_evaluator()):
            script.main()
            return
        try:
            script.main()
        except (UnavailableError, AbortedError, SystemExit):
            raise  # it may start again
        except Exception:
            pass  # it is among the failures, and the others go on
        evaluated.open(None)

    _stop_at(file.time_limit_s, outcome)
    outcome.launch(main, jobs, file.restart).join()
    outcome.ended_s = cluster.now
    if is_beside:
        cluster.engine.after(file.evaluator_grace_s, lambda: evaluated.open(None))
        evaluated.wait("the end of the evaluator")


def _is_evaluator() -> bool:
    return TFConfigClusterResolver().task_type == "evaluator"


def _stop_at(seconds: float | None, outcome: Outcome) -> None:
    """Stop the run at a virtual second, if a main is awaited then."""
    if seconds is None:
        return
    error = DeadlineExceededError(f"The run was stopped after {seconds:g} virtual seconds, the time_limit of the file.")

    def stop() -> None:
        if outcome.ended_s is None:
            outcome.cluster.world.tell_driver(error)

    outcome.cluster.engine.after(seconds, stop, is_awaited=False)


@contextmanager
def _without_warnings_of_faults() -> Iterator[None]:
    """A cluster warns of faults that never fired; here the table of faults says it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The fault .* never fired", UserWarning)
        yield
