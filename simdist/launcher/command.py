"""The command ``run script.py --cluster cluster.toml``: what it reads, runs and prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from simdist.errors import InvalidArgumentError, NotFoundError
from simdist.launcher.cluster_file import read_cluster_file
from simdist.launcher.script import Script, run_script

__all__ = ["run_command"]


def run_command(program: Path, arguments: Sequence[str], cluster: Path, seed: int | None = None, with_faults: bool = True) -> int:
    """Run a script on every task of a cluster, and print what has become of it.

    Args:
        program: the script.
        arguments: its words in ``sys.argv``, after its name.
        cluster: the file that describes the cluster.
        seed: in place of the file's.
        with_faults: False: the file's faults are left out.

    Returns:
        The exit status: 0 where all mains have ended that had to; 1 where one has failed, or the run could not end; 2 where the script or
        the file cannot be used.
    """
    try:
        outcome = run_script(Script(program, arguments), read_cluster_file(cluster), seed, with_faults)
    except (InvalidArgumentError, NotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    for line in outcome.errors():
        print(line, file=sys.stderr)
    print()
    for line in outcome.lines:
        print(line)
    return outcome.status
